// Declarations of the part of CNRT (Cambricon's runtime, version 1.0.0) that emitted programs call: to check that a program is
// well-formed C++ where the vendor's kit is not at hand. Nothing is defined here, and nothing of it can be linked.
#ifndef TILESTITCH_CNRT_H
#define TILESTITCH_CNRT_H

typedef int cnrtRet_t;  // INFERRED: an enumeration whose zero is success
const cnrtRet_t CNRT_RET_SUCCESS = 0;
typedef unsigned int cnrtDev_t;         // INFERRED
typedef struct cnrtQueue *cnrtQueue_t;  // INFERRED: a pointer to something opaque

struct cnrtInvokeFuncParam_t {
  int *data_parallelism;
  unsigned int *affinity;
  void *end;
};
#define CNRT_PARAM_END ((void *)0xFFFFFFFF)

cnrtRet_t cnrtInit(unsigned int flags);
void cnrtDestroy();
cnrtRet_t cnrtGetDeviceHandle(cnrtDev_t *device, int ordinal);
cnrtRet_t cnrtSetCurrentDevice(cnrtDev_t device);
cnrtRet_t cnrtCreateQueue(cnrtQueue_t *queue);
cnrtRet_t cnrtSyncQueue(cnrtQueue_t queue);
cnrtRet_t cnrtDestroyQueue(cnrtQueue_t queue);

#endif
