// net
//
// Names and parameter lists follow the public header of CNML 1.0.0. What that header does not say of their meaning
// (on which side padding is, how filters lie in memory, when parameters may be destroyed) is INFERRED. Nothing of this
// was ever run on an MLU100; what is known is that it is well-formed C++ against declarations of those calls.
//
// Build with the vendor's kit:  g++ -std=c++11 THIS.cpp -lcnml -lcnrt
// Run:  ./a.out CONSTANTS INPUT0 OUTPUT0
// Each file holds 32-bit floating-point numbers, the lowest byte first, in the order samples, channels, rows, columns;
// CONSTANTS the 3 constants one behind the other. The device computes in float16.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cnml.h"
#include "cnrt.h"

// Tensors of the network
static cnmlTensor_t t_image;
static cnmlTensor_t t_conv;
static cnmlTensor_t t_relu;
static cnmlTensor_t t_sum;
static cnmlTensor_t t_fc;

// Constants, in the order of their file
static cnmlTensor_t t_w0;
static cnmlTensor_t t_w1;
static cnmlTensor_t t_w2;

// Operators and their parameters
static cnmlConvOpParam_t param_conv;
static cnmlBaseOp_t op_conv;
static cnmlBaseOp_t op_relu;
static cnmlBaseOp_t op_sum;
static cnmlBaseOp_t op_fc;

// Blocks of several operators
static cnmlFusionOp_t block_0;

static cnrtQueue_t queue;
static int data_parallelism = 1;
static unsigned int affinity = 1;
static cnrtInvokeFuncParam_t how = {&data_parallelism, &affinity, CNRT_PARAM_END};

static void fail(const char *what) {
  fprintf(stderr, "error: %s\n", what);
  exit(1);
}

#define CNML(call) \
  if ((call) != CNML_STATUS_SUCCESS) fail(#call)
#define CNRT(call) \
  if ((call) != CNRT_RET_SUCCESS) fail(#call)

static FILE *opened(const char *path, const char *mode) {
  FILE *file = fopen(path, mode);
  if (file == nullptr) fail(path);
  return file;
}

static std::vector<float> numbers(FILE *file, size_t count) {
  std::vector<float> found(count);
  if (fread(found.data(), sizeof(float), count, file) != count) fail("a file is too short");
  return found;
}

static cnmlTensor_t tensor(cnmlTensorType_t kind, int n, int c, int h, int w) {
  cnmlTensor_t made;
  CNML(cnmlCreateTensor(&made, kind, CNML_DATA_FLOAT16, n, c, h, w));
  return made;
}

static cnmlTensor_t constant(cnmlTensorType_t kind, int n, int c, int h, int w, FILE *file) {
  std::vector<float> values = numbers(file, size_t(n) * c * h * w);
  cnmlTensor_t made = tensor(kind, n, c, h, w);
  cnmlCpuTensor_t host;
  CNML(cnmlCreateCpuTensor(&host, kind, CNML_DATA_FLOAT32, CNML_NCHW, n, c, h, w));
  CNML(cnmlBindConstData(made, host, values.data()));
  CNML(cnmlDestroyCpuTensor(&host));
  return made;
}

static void load(const char *path, cnmlTensor_t target, void *device, int n, int c, int h, int w) {
  FILE *file = opened(path, "rb");
  std::vector<float> values = numbers(file, size_t(n) * c * h * w);
  fclose(file);
  cnmlCpuTensor_t host;
  CNML(cnmlCreateCpuTensor(&host, CNML_TENSOR, CNML_DATA_FLOAT32, CNML_NCHW, n, c, h, w));
  CNML(cnmlMemcpyTensorToDevice(host, values.data(), target, device));
  CNML(cnmlDestroyCpuTensor(&host));
}

static void store(const char *path, cnmlTensor_t source, void *device, int n, int c, int h, int w) {
  std::vector<float> values(size_t(n) * c * h * w);
  cnmlCpuTensor_t host;
  CNML(cnmlCreateCpuTensor(&host, CNML_TENSOR, CNML_DATA_FLOAT32, CNML_NCHW, n, c, h, w));
  CNML(cnmlMemcpyTensorToHost(source, device, host, values.data()));
  CNML(cnmlDestroyCpuTensor(&host));
  FILE *file = opened(path, "wb");
  if (fwrite(values.data(), sizeof(float), values.size(), file) != values.size()) fail(path);
  fclose(file);
}

static void start() {
  cnrtDev_t device;
  CNRT(cnrtInit(0));
  CNRT(cnrtGetDeviceHandle(&device, 0));
  CNRT(cnrtSetCurrentDevice(device));
  CNRT(cnrtCreateQueue(&queue));
  CNML(cnmlInit(0));
}

static void stop() {
  CNML(cnmlExit());
  CNRT(cnrtDestroyQueue(queue));
  cnrtDestroy();
}

static void create_tensors(FILE *constants) {
  t_image = tensor(CNML_TENSOR, 1, 3, 8, 8);
  t_conv = tensor(CNML_TENSOR, 1, 3, 8, 8);
  t_relu = tensor(CNML_TENSOR, 1, 3, 8, 8);
  t_sum = tensor(CNML_TENSOR, 1, 3, 8, 8);
  t_fc = tensor(CNML_TENSOR, 1, 4, 1, 1);
  t_w0 = constant(CNML_FILTER, 3, 3, 3, 3, constants);
  t_w1 = constant(CNML_CONST, 1, 3, 1, 1, constants);
  t_w2 = constant(CNML_FILTER, 4, 3, 8, 8, constants);
}

static void create_operators() {
  CNML(cnmlCreateConvOpParam(&param_conv, 1, 1, 1, 1, 2, 2, CNML_NoSparse));
  CNML(cnmlCreateConvOp(&op_conv, param_conv, t_image, t_conv, t_w0, t_w1));
  CNML(cnmlCreateActiveOp(&op_relu, CNML_ACTIVE_RELU, t_conv, t_relu));
  CNML(cnmlCreateAddOp(&op_sum, t_image, t_relu, t_sum));
  CNML(cnmlCreateMlpOp(&op_fc, t_sum, t_fc, t_w2, nullptr, CNML_NoSparse));
}

// conv .. sum: 3 operators on 8 cores
static void compile_block_0() {
  CNML(cnmlCreateFusionOp(&block_0));
  CNML(cnmlFuseOp(op_conv, block_0));
  CNML(cnmlFuseOp(op_relu, block_0));
  CNML(cnmlFuseOp(op_sum, block_0));
  cnmlTensor_t inputs[] = {t_image};
  cnmlTensor_t outputs[] = {t_sum};
  CNML(cnmlSetFusionIO(block_0, inputs, 1, outputs, 1));
  CNML(cnmlCompileFusionOp(block_0, CNML_MLU100, 8));
}

// fc: 1 operator on 1 core
static void compile_block_1() {
  CNML(cnmlCompileBaseOp(op_fc, CNML_MLU100, 1));
}

int main(int argc, char **argv) {
  if (argc != 4) fail("expects the files named at its head");
  start();
  FILE *constants = opened(argv[1], "rb");
  create_tensors(constants);
  fclose(constants);
  create_operators();
  compile_block_0();
  compile_block_1();

  void *d_image = cnmlMallocBuffer(t_image);
  void *d_sum = cnmlMallocBuffer(t_sum);
  void *d_fc = cnmlMallocBuffer(t_fc);
  load(argv[2], t_image, d_image, 1, 3, 8, 8);

  {
    void *inputs[] = {d_image};
    void *outputs[] = {d_sum};
    CNML(cnmlComputeFusionOpForward_V3(block_0, inputs, 1, outputs, 1, &how, queue));
  }
  CNML(cnmlComputeMlpOpForward_V3(op_fc, d_sum, d_fc, &how, queue));
  CNRT(cnrtSyncQueue(queue));

  store(argv[3], t_fc, d_fc, 1, 4, 1, 1);

  CNML(cnmlFreeBuffer(d_image));
  CNML(cnmlFreeBuffer(d_sum));
  CNML(cnmlFreeBuffer(d_fc));
  CNML(cnmlDestroyFusionOp(&block_0));
  CNML(cnmlDestroyBaseOp(&op_conv));
  CNML(cnmlDestroyConvOpParam(&param_conv));
  CNML(cnmlDestroyBaseOp(&op_relu));
  CNML(cnmlDestroyBaseOp(&op_sum));
  CNML(cnmlDestroyBaseOp(&op_fc));
  CNML(cnmlDestroyTensor(&t_image));
  CNML(cnmlDestroyTensor(&t_conv));
  CNML(cnmlDestroyTensor(&t_relu));
  CNML(cnmlDestroyTensor(&t_sum));
  CNML(cnmlDestroyTensor(&t_fc));
  CNML(cnmlDestroyTensor(&t_w0));
  CNML(cnmlDestroyTensor(&t_w1));
  CNML(cnmlDestroyTensor(&t_w2));
  stop();
  return 0;
}
