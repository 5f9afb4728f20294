/* The functions of CANN whose results torch_npu reads; gen_stub.py adds all others. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define TRACE(n) if (getenv("FAKECANN_TRACE")) fprintf(stderr, "[fakecann] %s\n", n)

enum { ERR_ALLOC = 200000 };  /* ACL_ERROR_BAD_ALLOC */

/* ---- virtual clock: the test bed moves it, events read it --------------- */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double clock_ms = 0.0;

API void fakecann_advance_ms(double ms) {
    pthread_mutex_lock(&lock);
    clock_ms += ms;
    pthread_mutex_unlock(&lock);
}

API double fakecann_now_ms(void) {
    pthread_mutex_lock(&lock);
    double now = clock_ms;
    pthread_mutex_unlock(&lock);
    return now;
}

/* ---- one-shot fault: the next synchronise call returns this code -------- */
static int pending_error = 0;

API void fakecann_fail_next_sync(int code) {
    pthread_mutex_lock(&lock);
    pending_error = code;
    pthread_mutex_unlock(&lock);
}

static int take_error(void) {
    pthread_mutex_lock(&lock);
    int code = pending_error;
    pending_error = 0;
    pthread_mutex_unlock(&lock);
    return code;
}

API int aclrtSynchronizeDevice(void) { return take_error(); }
API int aclrtSynchronizeDeviceWithTimeout(int t) { return take_error(); }
API int aclrtSynchronizeStream(void *s) { return take_error(); }
API int aclrtSynchronizeStreamWithTimeout(void *s, int t) { return take_error(); }
API int aclrtSynchronizeEvent(void *e) { return take_error(); }

/* ---- the device: one Ascend910B1, 24 cube and 48 vector cores ----------- */
API const char *aclrtGetSocName(void) { return "Ascend910B1"; }
API int aclrtGetDeviceCount(unsigned *n) { *n = 1; return 0; }
API int aclrtGetDevice(int *d) { *d = 0; return 0; }
API const char *aclGetRecentErrMsg(void) { return "fake CANN: injected error"; }

API int aclrtGetMemInfo(int attr, size_t *free_, size_t *total) {
    *free_ = (size_t)60 << 30;
    *total = (size_t)64 << 30;
    return 0;
}

/* ACL_DEVICE_INFO_*: 0 AI cores, 1 vector cores, 2 L2 bytes */
API int aclGetDeviceCapability(unsigned dev, int what, int64_t *v) {
    *v = what == 0 ? 24 : what == 1 ? 48 : what == 2 ? (int64_t)192 << 20 : 0;
    return 0;
}

/* ACL_DEV_ATTR_*: 1 AICPU, 101 AI core, 102 cube core, 201 vector core */
API int aclrtGetDeviceInfo(unsigned dev, int attr, int64_t *v) {
    switch (attr) {
    case 1: *v = 6; break;
    case 101: case 102: *v = 24; break;
    case 201: *v = 48; break;
    case 204: *v = 192 << 10; break;           /* UB bytes per vector core */
    case 301: *v = (int64_t)64 << 30; break;   /* global memory */
    case 302: *v = (int64_t)192 << 20; break;  /* L2 */
    default: *v = 0;
    }
    return 0;
}

API int aclrtDeviceGetUuid(int dev, void *uuid) { memset(uuid, 0, 16); return 0; }

API size_t aclGetCompileoptSize(int opt) { return 16; }
API int aclGetCompileopt(int opt, char *buf, size_t n) {
    memset(buf, 0, n);
    strncpy(buf, "enable", n - 1);
    return 0;
}

/* ---- memory: device memory is host memory, copies are real -------------- */
static int get(void **p, size_t n) {
    *p = aligned_alloc(512, (n + 1023) / 512 * 512);
    return *p ? 0 : ERR_ALLOC;
}
API int aclrtMalloc(void **p, size_t n, int f) { return get(p, n); }
API int aclrtMallocAlign32(void **p, size_t n, int f) { return get(p, n); }
API int aclrtMallocHost(void **p, size_t n) { return get(p, n); }
API int aclrtMallocHostWithCfg(void **p, size_t n, void *c) { return get(p, n); }
API int aclrtFree(void *p) { free(p); return 0; }
API int aclrtFreeHost(void *p) { free(p); return 0; }

API int aclrtMemcpy(void *d, size_t m, const void *s, size_t n, int k) {
    memmove(d, s, n);
    return 0;
}
API int aclrtMemcpyAsync(void *d, size_t m, const void *s, size_t n, int k, void *st) {
    memmove(d, s, n);
    return 0;
}
API int aclrtMemcpyAsyncWithCondition(void *d, size_t m, const void *s, size_t n,
                                      int k, void *st) {
    memmove(d, s, n);
    return 0;
}
API int aclrtMemset(void *d, size_t m, int v, size_t n) { memset(d, v, n); return 0; }
API int aclrtMemsetAsync(void *d, size_t m, int v, size_t n, void *st) {
    memset(d, v, n);
    return 0;
}

/* ---- contexts and streams: everything is finished at once --------------- */
API int aclrtGetCurrentContext(void **c) { static char x[64]; *c = x; return 0; }
API int aclrtCtxGetCurrentDefaultStream(void **s) { static char x[64]; *s = x; return 0; }
API int aclrtCreateStream(void **s) { *s = calloc(1, 64); return 0; }
API int aclrtCreateStreamWithConfig(void **s, unsigned p, unsigned f) {
    *s = calloc(1, 64);
    return 0;
}
API int aclrtStreamQuery(void *s, int *status) { *status = 1; return 0; }

/* ---- events: they hold the virtual time of their record ----------------- */
static int new_event(void **e) { *e = calloc(1, 64); return *e ? 0 : ERR_ALLOC; }
API int aclrtCreateEvent(void **e) { return new_event(e); }
API int aclrtCreateEventWithFlag(void **e, unsigned f) { return new_event(e); }
API int aclrtCreateEventExWithFlag(void **e, unsigned f) { return new_event(e); }
API int aclrtDestroyEvent(void *e) { free(e); return 0; }
API int aclrtRecordEvent(void *e, void *s) { *(double *)e = fakecann_now_ms(); return 0; }
API int aclrtEventElapsedTime(float *ms, void *a, void *b) {
    *ms = (float)(*(double *)b - *(double *)a);
    return 0;
}
API int aclrtQueryEventStatus(void *e, int *status) { *status = 1; return 0; }
API int aclrtQueryEventWaitStatus(void *e, int *status) { *status = 1; return 0; }

/* ---- everything else succeeds and does nothing: see gen_stub.py ---------- */
