// Declarations of the part of CNML (Cambricon's library of operators, version 1.0.0, for the MLU100) that emitted programs call:
// to check that a program is well-formed C++ where the vendor's kit is not at hand. Nothing is defined here, and nothing
// of it can be linked. Values of enumerations are left to the vendor's header.
#ifndef TILESTITCH_CNML_H
#define TILESTITCH_CNML_H

#include "cnrt.h"

enum cnmlStatus_t { CNML_STATUS_SUCCESS = 0 };
enum cnmlCoreVersion_t { CNML_MLU100 };
enum cnmlTensorType_t { CNML_TENSOR, CNML_FILTER, CNML_CONST };
enum cnmlDataType_t { CNML_DATA_FLOAT16, CNML_DATA_FLOAT32 };
enum cnmlDataOrder_t { CNML_NCHW };
enum cnmlSparseMode_t { CNML_NoSparse };
enum cnmlPoolMode_t { CNML_POOL_AVG, CNML_POOL_MAX };
enum cnmlPoolStrategyMode_t { CNML_POOL_KFULL, CNML_POOL_KVALID };
enum cnmlActiveFunction_t {
  CNML_ACTIVE_SIGMOID,
  CNML_ACTIVE_RELU,
  CNML_ACTIVE_TANH,
  CNML_ACTIVE_RELU1,
  CNML_ACTIVE_RELU6
};
enum cnmlSoftmaxDim_t { CNML_SOFTMAX_DIM_C };
enum cnmlConcatMode_t { CNML_CONCAT_FEAT, CNML_CONCAT_BATCH, CNML_CONCAT_HIGHT, CNML_CONCAT_WIDTH };
enum cnmlLrnType_t { CNML_LRN_V3 };

typedef struct cnmlTensor *cnmlTensor_t;
typedef struct cnmlCpuTensor *cnmlCpuTensor_t;
typedef struct cnmlBaseOp *cnmlBaseOp_t;
typedef struct cnmlFusionOp *cnmlFusionOp_t;
typedef struct cnmlConvOpParam *cnmlConvOpParam_t;
typedef struct cnmlConvDepthwiseOpParam *cnmlConvDepthwiseOpParam_t;
typedef struct cnmlAddPadOpParam *cnmlAddPadOpParam_t;
typedef struct cnmlPoolOpParam *cnmlPoolOpParam_t;
typedef struct cnmlConcatOpParam *cnmlConcatOpParam_t;
typedef struct cnmlLrnOpParam *cnmlLrnOpParam_t;

cnmlStatus_t cnmlInit(int flag);
cnmlStatus_t cnmlExit();

// Tensors on the device and on the host, and transfers between them
cnmlStatus_t cnmlCreateTensor(cnmlTensor_t *tensor, cnmlTensorType_t kind, cnmlDataType_t type, int n, int c, int h, int w);
cnmlStatus_t cnmlDestroyTensor(cnmlTensor_t *tensor);
cnmlStatus_t cnmlCreateCpuTensor(cnmlCpuTensor_t *tensor, cnmlTensorType_t kind, cnmlDataType_t type,
                                 cnmlDataOrder_t order, int n, int c, int h, int w);
cnmlStatus_t cnmlDestroyCpuTensor(cnmlCpuTensor_t *tensor);
cnmlStatus_t cnmlBindConstData(cnmlTensor_t tensor, cnmlCpuTensor_t host, void *values);
void *cnmlMallocBuffer(cnmlTensor_t tensor);
cnmlStatus_t cnmlFreeBuffer(void *buffer);
cnmlStatus_t cnmlMemcpyTensorToDevice(cnmlCpuTensor_t host, void *source, cnmlTensor_t tensor, void *target);
cnmlStatus_t cnmlMemcpyTensorToHost(cnmlTensor_t tensor, void *source, cnmlCpuTensor_t host, void *target);

// Operators alone and fused
cnmlStatus_t cnmlCompileBaseOp(cnmlBaseOp_t op, cnmlCoreVersion_t version, int model_parallelism);
cnmlStatus_t cnmlDestroyBaseOp(cnmlBaseOp_t *op);
cnmlStatus_t cnmlCreateFusionOp(cnmlFusionOp_t *op);
cnmlStatus_t cnmlFuseOp(cnmlBaseOp_t op, cnmlFusionOp_t fusion);
cnmlStatus_t cnmlSetFusionIO(cnmlFusionOp_t op, cnmlTensor_t *inputs, int input_count, cnmlTensor_t *outputs,
                             int output_count);
cnmlStatus_t cnmlCompileFusionOp(cnmlFusionOp_t op, cnmlCoreVersion_t version, int model_parallelism);
cnmlStatus_t cnmlComputeFusionOpForward_V3(cnmlFusionOp_t op, void *inputs[], int input_count, void *outputs[],
                                           int output_count, cnrtInvokeFuncParam_t *how, cnrtQueue_t queue);
cnmlStatus_t cnmlDestroyFusionOp(cnmlFusionOp_t *op);

// Convolutions: strides, dilations and the sums of padding on both sides, height before width
cnmlStatus_t cnmlCreateConvOpParam(cnmlConvOpParam_t *param, int stride_h, int stride_w, int dilation_h, int dilation_w,
                                   int pad_h, int pad_w, cnmlSparseMode_t sparse);
cnmlStatus_t cnmlDestroyConvOpParam(cnmlConvOpParam_t *param);
cnmlStatus_t cnmlCreateConvOp(cnmlBaseOp_t *op, cnmlConvOpParam_t param, cnmlTensor_t input, cnmlTensor_t output,
                              cnmlTensor_t filter, cnmlTensor_t bias);
cnmlStatus_t cnmlCreateConvGroupOp(cnmlBaseOp_t *op, cnmlConvOpParam_t param, cnmlTensor_t input, cnmlTensor_t output,
                                   cnmlTensor_t filter, cnmlTensor_t bias, int groups);
cnmlStatus_t cnmlCreateConvDepthwiseOpParam(cnmlConvDepthwiseOpParam_t *param, int stride_h, int stride_w);
cnmlStatus_t cnmlDestroyConvDepthwiseOpParam(cnmlConvDepthwiseOpParam_t *param);
cnmlStatus_t cnmlCreateConvDepthwiseOp(cnmlBaseOp_t *op, cnmlConvDepthwiseOpParam_t param, cnmlTensor_t input,
                                       cnmlTensor_t output, cnmlTensor_t filter, cnmlTensor_t bias);
cnmlStatus_t cnmlCreateMlpOp(cnmlBaseOp_t *op, cnmlTensor_t input, cnmlTensor_t output, cnmlTensor_t filter,
                             cnmlTensor_t bias, cnmlSparseMode_t sparse);

// Windows and padding
cnmlStatus_t cnmlCreateAddPadOp4Param(cnmlAddPadOpParam_t *param, int top, int bottom, int left, int right, float value);
cnmlStatus_t cnmlDestroyAddPadOpParam(cnmlAddPadOpParam_t *param);
cnmlStatus_t cnmlCreateAddPadOp(cnmlBaseOp_t *op, cnmlAddPadOpParam_t param, cnmlTensor_t input, cnmlTensor_t output);
cnmlStatus_t cnmlCreatePoolOpParam(cnmlPoolOpParam_t *param, int window_h, int window_w, int stride_h, int stride_w,
                                   int pad_h, int pad_w, int dilation_h, int dilation_w, cnmlPoolMode_t mode,
                                   cnmlPoolStrategyMode_t strategy, bool real);
cnmlStatus_t cnmlDestroyPoolOpParam(cnmlPoolOpParam_t *param);
cnmlStatus_t cnmlCreatePoolOp(cnmlBaseOp_t *op, cnmlPoolOpParam_t param, cnmlTensor_t input, cnmlTensor_t output);

// Element by element, and along channels
cnmlStatus_t cnmlCreateActiveOp(cnmlBaseOp_t *op, cnmlActiveFunction_t function, cnmlTensor_t input, cnmlTensor_t output);
cnmlStatus_t cnmlCreateAddOp(cnmlBaseOp_t *op, cnmlTensor_t first, cnmlTensor_t second, cnmlTensor_t output);
cnmlStatus_t cnmlCreateSubOp(cnmlBaseOp_t *op, cnmlTensor_t first, cnmlTensor_t second, cnmlTensor_t output);
cnmlStatus_t cnmlCreateMultOp(cnmlBaseOp_t *op, cnmlTensor_t first, cnmlTensor_t second, cnmlTensor_t output);
cnmlStatus_t cnmlCreateScaleOp(cnmlBaseOp_t *op, cnmlTensor_t input, cnmlTensor_t output, cnmlTensor_t alpha,
                               cnmlTensor_t beta);
cnmlStatus_t cnmlCreateLrnOpParam(cnmlLrnOpParam_t *param, cnmlLrnType_t type, int size, double alpha, double beta,
                                  double k);
cnmlStatus_t cnmlDestroyLrnOpParam(cnmlLrnOpParam_t *param);
cnmlStatus_t cnmlCreateLrnOp(cnmlBaseOp_t *op, cnmlLrnOpParam_t param, cnmlTensor_t input, cnmlTensor_t output);
cnmlStatus_t cnmlCreateSoftmaxOp(cnmlBaseOp_t *op, cnmlSoftmaxDim_t dim, cnmlTensor_t input, cnmlTensor_t output);
cnmlStatus_t cnmlCreateConcatOpParam(cnmlConcatOpParam_t *param, int input_count, int output_count, cnmlConcatMode_t mode);
cnmlStatus_t cnmlDestroyConcatOpParam(cnmlConcatOpParam_t *param);
cnmlStatus_t cnmlCreateConcatOp(cnmlBaseOp_t *op, cnmlConcatOpParam_t param, cnmlTensor_t *inputs, int input_count,
                                cnmlTensor_t *outputs, int output_count);

// Runs of operators that are blocks by themselves
#define TILESTITCH_UNARY(NAME) \
  cnmlStatus_t NAME(cnmlBaseOp_t op, void *input, void *output, cnrtInvokeFuncParam_t *how, cnrtQueue_t queue)
#define TILESTITCH_BINARY(NAME)                                                                  \
  cnmlStatus_t NAME(cnmlBaseOp_t op, void *first, void *second, void *output, cnrtInvokeFuncParam_t *how, \
                    cnrtQueue_t queue)
TILESTITCH_UNARY(cnmlComputeConvOpForward_V3);
TILESTITCH_UNARY(cnmlComputeConvGroupOpForward_V3);
TILESTITCH_UNARY(cnmlComputeConvDepthwiseOpForward_V3);
TILESTITCH_UNARY(cnmlComputeMlpOpForward_V3);
TILESTITCH_UNARY(cnmlComputeAddPadOpForward_V3);
TILESTITCH_UNARY(cnmlComputePoolOpForward_V3);
TILESTITCH_UNARY(cnmlComputeActiveOpForward_V3);
TILESTITCH_UNARY(cnmlComputeScaleOpForward_V3);
TILESTITCH_UNARY(cnmlComputeLrnOpForward_V3);
TILESTITCH_UNARY(cnmlComputeSoftmaxOpForward_V3);
TILESTITCH_BINARY(cnmlComputeAddOpForward_V3);
TILESTITCH_BINARY(cnmlComputeSubOpForward_V3);
TILESTITCH_BINARY(cnmlComputeMultOpForward_V3);
cnmlStatus_t cnmlComputeConcatOpForward_V3(cnmlBaseOp_t op, void *inputs[], int input_count, void *outputs[],
                                           int output_count, cnrtInvokeFuncParam_t *how, cnrtQueue_t queue);
#undef TILESTITCH_UNARY
#undef TILESTITCH_BINARY

#endif
