/* A libcuda with CUPTI's callbacks in it, whose kernels are functions of the host that change its memory; and
 * (with -DPROGRAM) programs whose kernels are launched again. Device memory is the host's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
struct function {
    const char *name;
    int (*run)(void **);
    size_t count, sizes[4];
};
typedef struct function *function;
struct attribute { int id, unused, value[16]; };
struct config { unsigned shape[7]; void *stream; struct attribute *attributes; unsigned count; };
#ifndef PROGRAM
/* With FAKE_CLOCK time passes while kernels run, and only then. */
static uint64_t passed;
static uint64_t real_now(void) {
    struct timespec at;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}
static uint64_t now(void) { return passed ? __atomic_load_n(&passed, __ATOMIC_RELAXED) : real_now(); }
__attribute__((constructor)) static void set_clock(void) { passed = getenv("FAKE_CLOCK") ? real_now() : 0; }
int clock_gettime(clockid_t which, struct timespec *at) {
    if (!passed) return (int)syscall(SYS_clock_gettime, which, at);
    return at->tv_sec = (time_t)(now() / 1000000000u), at->tv_nsec = (long)(now() % 1000000000u), 0;
}
int fake_pass(uint64_t ns) {
    if (passed) return __atomic_fetch_add(&passed, ns, __ATOMIC_RELAXED), 0;
    for (uint64_t end = now() + ns; now() < end;) {}
    return 0;
}
/* CUPTI */
struct call { int site; const char *name; const void *parameters; int *result; const char *symbol; void *context; };
typedef void (*call_fn)(void *, uint32_t, uint32_t, const struct call *);
static call_fn subscriber;
static uint8_t is_watched[1024];
static void (*request)(uint8_t **, size_t *, size_t *);
static void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static int is_traced, broken;
enum { BYTES = 208 };
int cuptiGetVersion(uint32_t *version) { return *version = 28, 0; }
int cuptiActivityRegisterTimestampCallback(void *from) { return from == NULL; }
int cuptiActivityRegisterCallbacks(void *a, void *b) { return *(void **)&request = a, *(void **)&complete = b, 0; }
int cuptiActivityEnable(uint32_t kind) { return is_traced |= kind == 10, 0; }
int cuptiActivityDisable(uint32_t kind) { return is_traced = 0, kind != 10; }
int cuptiActivityFlushPeriod(uint32_t ms) { return (void)ms, 0; }
int cuptiActivityGetNumDroppedRecords(void *c, uint32_t s, size_t *n) { return (void)c, (void)s, *n = 0, 0; }
int cuptiActivityGetNextRecord(uint8_t *from, size_t valid, uint8_t **record) {
    uint8_t *next = *record ? *record + BYTES : from;
    return next + BYTES > from + valid ? 12 : (*record = next, 0);
}
static uint8_t *buffer;
static size_t size, used, most;
int cuptiActivityFlushAll(uint32_t forced) {
    uint8_t *full = buffer;
    (void)forced, buffer = NULL;
    if (full) complete(NULL, 0, full, size, used);
    return 0;
}
int cuptiSubscribe(void **handle, call_fn call, void *own) {
    if (getenv("FAKE_SUBSCRIBED")) return 39;
    return *handle = (void *)7, (void)own, subscriber = call, 0;
}
int cuptiUnsubscribe(void *handle) { return subscriber = NULL, handle != (void *)7; }
int cuptiEnableCallback(uint32_t on, void *handle, uint32_t domain, uint32_t id) {
    return is_watched[id] = (uint8_t)on, handle != (void *)7 || domain != 1;
}
static void *current = (void *)0xc0;
static void told(uint32_t id, int site, const void *parameters, int *result, const char *symbol) {
    struct call call = {site, "", parameters, result, symbol, current};
    if (subscriber && is_watched[id]) subscriber(NULL, 1, id, &call);
}
#define TOLD(id, parameters, symbol, work)          \
    int result = 0;                                 \
    told(id, 0, parameters, &result, symbol);       \
    result = (work);                                \
    told(id, 1, parameters, &result, symbol);       \
    return result
static void seen(const char *name, const unsigned *shape, uint64_t start, uint64_t end) {
    if (!is_traced) return;
    if (buffer && used + BYTES > size) cuptiActivityFlushAll(0);
    if (!buffer) request(&buffer, &size, &most), used = 0;
    uint8_t *record = buffer + used;
    used += BYTES;
    memset(record, 0, BYTES);
    memcpy(record, &(uint32_t){10}, 4);
    memcpy(record + 16, &start, 8), memcpy(record + 24, &end, 8);
    memcpy(record + 52, shape, 24), memcpy(record + 80, shape + 6, 4);
    memcpy(record + 104, &name, 8);
}
/* Memory: 1 is pinned on the host, 2 on the device, 3 managed, 4 of another GPU. */
static struct { uint64_t start, size; int type; } memory[256];
static int memories;
static struct { uint64_t start; size_t size; } spare; /* what was freed last is given next */
static int made(uint64_t *to, size_t bytes, int type) {
    *to = bytes <= spare.size ? spare.start : (uint64_t)calloc(1, bytes);
    if (*to == spare.start) spare.size = 0;
    for (int i = 0; i <= memories && i < 256; i++)
        if (i == memories || !memory[i].start) {
            memory[i].start = *to, memory[i].size = bytes, memory[i].type = type;
            if (i == memories) memories++;
            break;
        }
    return 0;
}
static int gone(uint64_t start) {
    for (int i = 0; i < memories; i++)
        if (memory[i].start == start)
            return spare.start = start, spare.size = memory[i].size, memory[i].start = 0, 0;
    return 1;
}
int cuMemAlloc_v2(uint64_t *to, size_t bytes) {
    struct { uint64_t *to; size_t bytes; } of = {to, bytes};
    TOLD(243, &of, NULL, made(to, bytes, 2));
}
int cuMemAllocManaged(uint64_t *to, size_t bytes, unsigned flags) {
    struct { uint64_t *to; size_t bytes; unsigned flags; } of = {to, bytes, flags};
    TOLD(371, &of, NULL, made(to, bytes, 3));
}
int cuMemFree_v2(uint64_t start) { TOLD(245, &start, NULL, gone(start)); }
int cuIpcOpenMemHandle_v2(uint64_t *to, int handle) {
    struct { uint64_t *to; int handle; } of = {to, handle};
    TOLD(567, &of, NULL, made(to, 4096, 2));
}
int fake_memory(uint64_t *to, size_t bytes, int type) { return made(to, bytes, type); }
int cuPointerGetAttribute(void *to, int which, uint64_t address) {
    for (int i = 0; i < memories; i++) {
        if (!memory[i].start || address < memory[i].start || address >= memory[i].start + memory[i].size) continue;
        if (which == 2) *(unsigned *)to = memory[i].type == 1 ? 1 : 2;
        if (which == 8) *(unsigned *)to = memory[i].type == 3;
        if (which == 9) *(int *)to = memory[i].type == 4;
        if (which == 11) *(uint64_t *)to = memory[i].start;
        if (which == 12) *(uint64_t *)to = memory[i].size;
        return 0;
    }
    return 1;
}
int cuMemGetInfo_v2(size_t *left, size_t *all) {
    return *left = getenv("FAKE_FULL") ? 0 : (size_t)4 << 30, *all = (size_t)8 << 30, 0;
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, void *s) {
    return (void)s, memset((void *)to, value, n), broken;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) { return memcpy(to, (void *)from, n), broken; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) { return memcpy((void *)to, from, n), broken; }
int cuCtxGetCurrent(void **context) { return *context = current, 0; }
int cuCtxSetCurrent(void *context) { return context != current; }
int cuCtxGetDevice(int *device) { return *device = 0; }
int cuCtxSynchronize(void) { return broken; }
int cuCtxDestroy_v2(void *context) { TOLD(322, &context, NULL, 0); }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetUuid(uint8_t *id, int device) { return memset(id, 0x10 + device, 16), 0; }
int cuFuncGetName(const char **name, function of) { return *name = of->name, 0; }
int cuFuncGetModule(void **module, function of) { return (void)of, *module = (void *)0xd0, 0; }
int cuModuleUnload(void *module) { TOLD(22, &module, NULL, 0); }
int cuFuncGetParamInfo(function of, size_t i, size_t *offset, size_t *bytes) {
    if (i >= of->count) return 1;
    *offset = 0;
    for (size_t n = 0; n < i; n++) *offset += of->sizes[n];
    return *bytes = of->sizes[i], 0;
}
int fake_heat;
static int sleeping(void **p) { return (void)p, fake_heat -= fake_heat > 1 ? 2 : fake_heat, fake_pass(20000); }
static int digest(void **p) {
    uint64_t *from = *(uint64_t **)p[0], words = *(uint64_t *)p[1], *to = *(uint64_t **)p[2];
    for (uint64_t at = 0; at < words; at++) to[at >> 17] += (from[at] ^ at * 0x9E3779B97F4A7C15u) * 0x94D049BB133111EBu;
    return 0;
}
static int nothing(void **p) { return (void)p, fake_pass(1000); }
static struct function own[3] = {{"ptxbench_sleep", sleeping, 0, {0}}, {"ptxbench_nothing", nothing, 0, {0}},
                                 {"ptxbench_digest", digest, 3, {8, 8, 8}}};
int cuModuleLoadData(void **module, const char *text) { return *module = (void *)9, !strstr(text, ".entry"); }
int cuModuleGetFunction(function *to, void *module, const char *name) {
    for (*to = own; strcmp((*to)->name, name) && *to < own + 2;) ++*to;
    return module != (void *)9 || strcmp(name, (*to)->name);
}
/* Graphs and streams */
struct node { function of; unsigned shape[7]; void *parameters[4]; int type, values[16]; };
struct graph { size_t count; struct node nodes[4096]; };
struct stream { struct graph *capture; };
static int execute(function of, const unsigned *shape, void **parameters) {
    uint64_t start = now();
    if (!broken) broken = of->run(parameters);
    seen(of->name, shape, start, now());
    return broken;
}
static int add(struct graph *to, function of, const unsigned *shape, void **parameters) {
    struct node *node = to->nodes + to->count++;
    node->of = of;
    memcpy(node->shape, shape, sizeof node->shape);
    for (size_t i = 0; i < of->count; i++)
        node->parameters[i] = memcpy(malloc(of->sizes[i]), parameters[i], of->sizes[i]);
    return 0;
}
static int put(function of, const unsigned *shape, struct stream *stream, void **parameters) {
    return stream && stream->capture ? add(stream->capture, of, shape, parameters) : execute(of, shape, parameters);
}
static int copied(void **p) { return memcpy(*(void **)p[0], *(void **)p[1], *(size_t *)p[2]), fake_pass(2000); }
static struct function copying = {"", copied, 3, {8, 8, 8}};
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, struct stream *stream) {
    void *parameters[] = {&to, &from, &n};
    return put(&copying, (unsigned[7]){0}, stream, parameters);
}
int cuStreamCreate(struct stream **to, unsigned flags) { return (void)flags, *to = calloc(1, sizeof **to), 0; }
int cuStreamSynchronize(void *stream) { return (void)stream, broken; }
int cuStreamIsCapturing(struct stream *stream, int *is) { return *is = stream && stream->capture, 0; }
int cuStreamBeginCapture_v2(struct stream *stream, int mode) {
    return (void)mode, stream->capture = calloc(1, sizeof *stream->capture), 0;
}
int cuStreamEndCapture(struct stream *stream, struct graph **to) { return *to = stream->capture, stream->capture = NULL, 0; }
int cuGraphGetNodes(struct graph *graph, struct node **to, size_t *count) {
    for (size_t i = 0; to && i < graph->count; i++) ((struct node **)to)[i] = graph->nodes + i;
    return *count = graph->count, 0;
}
int cuGraphNodeGetType(struct node *node, int *type) { return *type = node->type, 0; }
int cuGraphChildGraphNodeGetGraph(struct node *node, void **to) { return (void)node, *to = NULL, 1; }
int cuGraphKernelNodeGetParams_v2(struct node *node, uint8_t *to) {
    void **parameters = node->parameters;
    memset(to, 0, 72), memcpy(to, &node->of, 8), memcpy(to + 8, node->shape, 28), memcpy(to + 40, &parameters, 8);
    return 0;
}
int cuGraphKernelNodeGetAttribute(struct node *node, int which, int *to) { return *to = node->values[which], 0; }
int cuGraphInstantiateWithFlags(struct graph **to, struct graph *graph, uint64_t flags) {
    struct { void *to, *graph; uint64_t flags; } of = {to, graph, flags};
    TOLD(643, &of, NULL, (*to = memcpy(malloc(sizeof *graph), graph, sizeof *graph), 0));
}
static int ran(struct graph *exec) {
    for (size_t i = 0; i < exec->count; i++)
        if (!exec->nodes[i].type && execute(exec->nodes[i].of, exec->nodes[i].shape, exec->nodes[i].parameters)) break;
    return broken;
}
int cuGraphLaunch(struct graph *exec, void *stream) {
    struct { void *exec, *stream; } of = {exec, stream};
    TOLD(514, &of, NULL, ran(exec));
}
int cuGraphExecDestroy(struct graph *exec) { TOLD(516, &exec, NULL, (free(exec), 0)); }
int cuGraphDestroy(struct graph *graph) { return free(graph), 0; }
#define LAUNCH(entry, id)                                                                                    \
    int entry(function of, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,     \
              unsigned shared, struct stream *stream, void **parameters, void **extra) {                     \
        struct { function of; unsigned shape[7]; void *stream, **parameters, **extra; } all =                \
            {of, {gx, gy, gz, bx, by, bz, shared}, stream, parameters, extra};                               \
        TOLD(id, &all, of->name, put(of, all.shape, stream, parameters));                                    \
    }
LAUNCH(cuLaunchKernel, 307)
LAUNCH(fakeCooperative, 477)
int cuLaunchKernelEx(const struct config *config, function of, void **parameters, void **extra) {
    struct { const struct config *config; function of; void **parameters, **extra; } all =
        {config, of, parameters, extra};
    TOLD(652, &all, of->name, put(of, config->shape, config->stream, parameters));
}
int cuInit(unsigned flags) {
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    int (*begin)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    return begin ? begin() != 1 : (int)flags;
}
#else
int cuInit(unsigned), cuMemAlloc_v2(uint64_t *, size_t), cuMemAllocManaged(uint64_t *, size_t, unsigned);
int cuMemFree_v2(uint64_t), cuIpcOpenMemHandle_v2(uint64_t *, int), fake_memory(uint64_t *, size_t, int);
int cuLaunchKernel(function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int fakeCooperative(function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuLaunchKernelEx(const struct config *, function, void **, void **);
int cuStreamCreate(void **, unsigned), cuStreamBeginCapture_v2(void *, int), cuStreamEndCapture(void *, void **);
int cuGraphInstantiateWithFlags(void **, void *, uint64_t), cuGraphLaunch(void *, void *), cuGraphDestroy(void *);
int cuCtxDestroy_v2(void *), cuModuleUnload(void *);
enum { WORDS = 1 << 12 };
extern int fake_heat;
int fake_pass(uint64_t);
static uint64_t x, y, z, bytes = WORDS * sizeof(uint64_t);
static int busy(void) { return fake_pass(30000); }
/* Changes what it reads. */
static int grow(void **p) {
    uint64_t *to = *(uint64_t **)p[0];
    for (int i = 0; i < WORDS; i++) to[i] = to[i] * 3 + *(uint32_t *)p[1];
    return busy();
}
/* Of a large allocation a word in the second MiB and the last one. */
enum { LARGE = (3 << 17) + 1 };
static int poke(void **p) {
    uint64_t *to = *(uint64_t **)p[0];
    return to[(1 << 17) + 5] += 3, to[LARGE - 1] += 5, busy();
}
/* Takes much longer where it has run for long without a pause. */
static int heat(void **p) {
    fake_heat += fake_heat < 720;
    return (void)p, fake_heat > 700 ? busy() + busy() + busy() : busy();
}
/* Ends at nought after some launches. */
static int halve(void **p) {
    uint64_t *to = *(uint64_t **)p[0];
    for (int i = 0; i < WORDS; i++) to[i] /= 2;
    return busy();
}
/* Lasts as long as its first parameter says, ns. */
static int last(void **p) { return fake_pass(*(uint64_t *)p[0]); }
static int copy(void **p) { return memcpy(*(void **)p[0], *(void **)p[1], bytes), busy(); }
/* Waits for a word of memory, as one that waits for the host. */
static int wait_for(void **p) {
    for (volatile uint64_t *word = *(uint64_t **)p[0]; !*word;) usleep(100);
    return busy();
}
/* Follows an address that is in memory. */
static int follow(void **p) { return **(volatile int **)*(void **)p[0] ? busy() : 0; }
/* Ends in an error that stays where a word is 0. */
static int fail(void **p) { return **(uint64_t **)p[0] ? busy() : 700; }
static int say(void **p) { return (void)p, puts("said by a kernel"), fflush(stdout), busy(); }
static struct function kernels[] = {
    {"grow", grow, 2, {8, 4}}, {"copy", copy, 2, {8, 8}}, {"wait_for", wait_for, 1, {8}},
    {"follow", follow, 1, {8}}, {"fail", fail, 1, {8}}, {"say", say, 1, {8}}, {"ncclDevKernel_AllReduce", copy, 2, {8, 8}},
    {"halve", halve, 1, {8}}, {"poke", poke, 1, {8}},
    {"heat", heat, 1, {8}}, {"last", last, 1, {8}}};
static int launch(int which, unsigned grid, uint64_t a, uint64_t b) {
    void *parameters[] = {&a, &b};
    return cuLaunchKernel(kernels + which, grid, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL);
}
static void check(void) {
    /* Runs behind the replay: what memory holds then. */
    uint64_t sum = 14695981039346656037u;
    for (int i = 0; i < WORDS; i++) sum = (sum ^ ((uint64_t *)x)[i] ^ 7 * ((uint64_t *)y)[i]) * 1099511628211u;
    for (int i = 0; i < LARGE && z; i++) sum = (sum ^ ((uint64_t *)z)[i]) * 1099511628211u;
    printf("memory %016llx\n", (unsigned long long)sum);
}
int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    cuInit(0);
    cuMemAlloc_v2(&x, bytes), cuMemAlloc_v2(&y, bytes);
    for (int i = 0; i < WORDS; i++) ((uint64_t *)x)[i] = (uint64_t)i;
    if (strcmp(what, "exits")) atexit(check);
    uint64_t other = 0;
    if (!strcmp(what, "managed")) cuMemAllocManaged(&other, bytes, 1);
    if (!strcmp(what, "mapped")) fake_memory(&other, bytes, 1);
    if (!strcmp(what, "peer")) fake_memory(&other, bytes, 4);
    if (!strcmp(what, "ipc")) cuIpcOpenMemHandle_v2(&other, 5), bytes = 4096;
    if (!strcmp(what, "freed") || !strcmp(what, "reused")) cuMemAlloc_v2(&other, bytes);
    if (!strcmp(what, "graph")) {
        void *stream, *graph, *exec;
        struct config config = {{2, 1, 1, 64, 1, 1, 0}, NULL, NULL, 0};
        uint32_t step = 5;
        void *parameters[] = {&x, &step}, *copied[] = {&y, &x};
        cuStreamCreate(&stream, 0), cuStreamBeginCapture_v2(stream, 0), config.stream = stream;
        for (int i = 0; i < 3; i++) cuLaunchKernelEx(&config, kernels, parameters, NULL);
        cuLaunchKernelEx(&config, kernels + 1, copied, NULL);
        cuStreamEndCapture(stream, &graph), cuGraphInstantiateWithFlags(&exec, graph, 0), cuGraphDestroy(graph);
        for (int i = 0; i < 10; i++) cuGraphLaunch(exec, stream);
    } else {
        for (int i = 0; i < 200; i++) launch(0, 1, x, 5), launch(1, 1, y, x);
        for (int i = 0; i < 7; i++) launch(1, 2, y, x);
    }
    if (other) launch(1, 3, other, x);
    if (!strcmp(what, "freed") || !strcmp(what, "reused")) cuMemFree_v2(other);
    if (!strcmp(what, "reused")) cuMemAlloc_v2(&other, 64);
    if (!strcmp(what, "large")) {
        cuMemAlloc_v2(&z, LARGE * 8);
        for (int i = 0; i < LARGE; i++) ((uint64_t *)z)[i] = (uint64_t)i;
        for (int i = 0; i < 200; i++) launch(8, 1, z, 0);
    }
    for (int i = 0; !strcmp(what, "first") && i < 16; i++) launch(10, 1, i ? 9000000 : 1000, 0);
    for (int i = 0; !strcmp(what, "heats") && i < 600; i++) launch(9, 1, x, 0), fake_heat = 0;
    if (!strcmp(what, "halves"))
        for (int i = 0; i < 200; i++) ((uint64_t *)y)[5] = 1ul << 63, launch(7, 1, y, 0);
    if (!strcmp(what, "nccl")) launch(6, 1, y, x);
    if (!strcmp(what, "cooperative")) {
        void *parameters[] = {&y, &x};
        fakeCooperative(kernels + 1, 3, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL);
    }
    if (!strcmp(what, "say")) launch(5, 1, x, 0);
    if (!strcmp(what, "hang") || !strcmp(what, "fail")) {
        ((uint64_t *)x)[0] = 1;
        for (int i = 0; i < 1000; i++) launch(what[0] == 'h' ? 2 : 4, 1, x, 0);
        ((uint64_t *)x)[0] = 0;
    }
    for (int i = 0; !strcmp(what, "hangs within") && i < 1000; i++) {
        ((uint64_t *)x)[0] = 1;
        launch(2, 1, x, 0);
        ((uint64_t *)x)[0] = 0;
        launch(1, 1, y, x);
    }
    if (!strcmp(what, "crash")) {
        static int one = 1;
        *(int **)x = &one;
        for (int i = 0; i < 1000; i++) launch(3, 1, x, 0);
        *(int **)x = NULL;
    }
    if (!strcmp(what, "destroyed")) cuCtxDestroy_v2((void *)0xc0);
    if (!strcmp(what, "unloaded")) cuModuleUnload((void *)0xd0);
    fputs("the program's output, ", stdout);
    if (!strcmp(what, "exits")) fflush(stdout), _exit(5);
    if (!strcmp(what, "signal")) raise(15);
    return 5;
}
#endif
