/* A libcuda whose kernels take 1 ms each in a stream, and (with -DPROGRAM) a program that launches them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static uint64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}
#ifndef PROGRAM
enum { KERNEL_NS = 1000000 };
static uint64_t free_at[4]; /* by stream: when it is done */
static uint64_t *stream(void *handle) {
    uint64_t *at = free_at + ((uintptr_t)handle & 3);
    if (*at < now()) *at = now();
    return at;
}
static int run(void *handle, int kernels) {
    *stream(handle) += (uint64_t)kernels * KERNEL_NS;
    return 0;
}
int cuEventCreate(uint64_t **event, unsigned flags) {
    static int made; /* more than a few launches need at once are refused */
    return made++ >= 200 || (*event = calloc(1, 8)) == NULL || flags;
}
int cuEventRecord(uint64_t *event, void *handle) { return *event = *stream(handle), 0; }
/* Stream 3 is captured all the time. To look at an event ends that, but by a thread whose mode is relaxed. */
static __thread int mode;
static int is_captured = 1;
int cuThreadExchangeStreamCaptureMode(int *to) {
    int before = mode;
    mode = *to;
    return *to = before, 0;
}
static int look(void) { return mode == 2 ? 0 : (is_captured = 0, 900); }
int cuStreamEndCapture(void *handle, void **graph) { return *graph = handle, is_captured ? 0 : 901; }
int cuEventQuery(uint64_t *event) { return look() ? 900 : *event <= now() ? 0 : 600; }
int cuEventSynchronize(uint64_t *event) {
    if (look()) return 900;
    while (*event > now()) usleep(100);
    return 0;
}
int cuEventElapsedTime(float *ms, uint64_t *from, uint64_t *to) {
    *ms = (float)((double)(int64_t)(*to - *from) / 1e6);
    return *to > now();
}
int cuStreamIsCapturing(void *handle, int *is) { return *is = handle == (void *)3, 0; }
int cuCtxGetCurrent(void **context) { return *context = (void *)1, 0; }
int cuCtxGetDevice(int *device) { return *device = 0; }
static char order[8]; /* numbers of the devices in CUDA's order, as they were when CUDA was started */
static int is_started;
int cuInit(unsigned flags) {
    const char *error = getenv("FAKE_INIT"), *given = getenv("FAKE_ORDER");
    if (flags || error) return error ? atoi(error) : 1;
    snprintf(order, sizeof order, "%s", given ? given : "0");
    return is_started = 1, 0;
}
int cuDeviceGetCount(int *count) { return *count = (int)strlen(order), is_started ? 0 : 3; }
int cuDeviceGet(int *device, int ordinal) { return *device = order[0] ? order[ordinal] - '0' : ordinal, 0; }
int cuDeviceGetUuid(uint8_t *id, int device) { return memset(id, 0x10 + device, 16), 0; }
int cuFuncGetName(const char **name, const char *function) { return *name = function, 0; }
#define LAUNCH(entry, null)                                                                                 \
    int entry(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,         \
              unsigned bz, unsigned shared, void *handle, void **parameters, void **extra) {           \
        (void)function, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;                \
        (void)parameters, (void)extra;                                                                 \
        return gx ? run(handle ? handle : (void *)null, 1) : 1;                                                               \
    }
LAUNCH(cuLaunchKernel, 0)
LAUNCH(cuLaunchKernel_ptsz, 2)
struct config { unsigned dimensions[6], shared; void *stream; };
int cuLaunchKernelEx(const struct config *config, void *function, void **parameters, void **extra) {
    (void)function, (void)parameters, (void)extra;
    return run(config->stream, 1);
}
int cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned shared, void *handle, void **parameters) {
    (void)function, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)parameters;
    return gx ? run(handle, 1) : 1;
}
int cuGraphLaunch(void *graph, void *handle) { return (void)graph, run(handle, 5); }
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, void *status) {
    char text[64];
    (void)version, (void)status;
    int own = (flags & 2) && (!strcmp(name, "cuLaunchKernel"));
    snprintf(text, sizeof text, "%s%s", name, own ? "_ptsz" : strcmp(name, "cuGetProcAddress") ? "" : "_v2");
    *function = dlsym(RTLD_DEFAULT, text);
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library) *function = dlsym(library, text);
    return *function ? 0 : 500;
}
#else
typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                         void **, void **);
typedef int (*address_fn)(const char *, void **, int, uint64_t, void *);
static int launch(launch_fn function, const char *name, void *stream) {
    return function((void *)name, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}
int main(void) {
    if (getenv("FAKE_CUPTI")) dlopen(getenv("FAKE_CUPTI"), RTLD_NOW);
    void *library = dlopen(getenv("FAKE_CUDA"), RTLD_NOW);
    /* As the CUDA runtime does. */
    address_fn first = library ? (address_fn)dlsym(library, "cuGetProcAddress_v2") : NULL, address;
    launch_fn by_runtime, per_thread;
    if (!first || first("cuGetProcAddress", (void **)&address, 13000, 0, NULL)) return 90;
    if (address("cuLaunchKernel", (void **)&by_runtime, 13000, 0, NULL)) return 91;
    if (address("cuLaunchKernel", (void **)&per_thread, 13000, 2, NULL)) return 92;
    launch_fn looked_up = (launch_fn)dlsym(library, "cuLaunchKernel");
    int (*extended)(const void *, const char *, void **, void **);
    int (*graph)(void *, void *) = (int (*)(void *, void *))dlsym(library, "cuGraphLaunch");
    *(void **)&extended = dlsym(library, "cuLaunchKernelEx");
    struct { unsigned dimensions[6], shared; void *stream; } config = {{1, 1, 1, 1, 1, 1}, 0, (void *)1};
    for (int i = 0; i < 20; i++) {
        if (launch(by_runtime, "runtime", NULL) || launch(looked_up, "looked up", (void *)1)) return 93;
        usleep(500);
    }
    if (launch(per_thread, "per thread", NULL) || extended(&config, "extended", NULL, NULL)) return 94;
    int (*cooperative)(const char *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **);
    *(void **)&cooperative = dlsym(library, "cuLaunchCooperativeKernel");
    if (cooperative("cooperative", 1, 1, 1, 1, 1, 1, 0, NULL, NULL)) return 89;
    if (launch(by_runtime, "captured", (void *)3) || graph((void *)7, (void *)1)) return 95;
    for (int i = 0; i < 200; i++)
        if (by_runtime("refused", 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 1) return 96;
    /* Other look-ups are untouched, those of the next library by the caller among them. */
    if (dlsym(RTLD_DEFAULT, "strlen") == NULL || dlsym(RTLD_NEXT, "main") != NULL) return 97;
    if (dlsym(library, "cuNothing") != NULL || dlsym(library, "cuEventCreate") == NULL) return 98;
    int (*end)(void *, void **) = (int (*)(void *, void **))dlsym(library, "cuStreamEndCapture");
    void *captured;
    return end((void *)3, &captured) ? 99 : 3;
}
#endif
