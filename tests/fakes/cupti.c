/* A libcupti that plays kernels, and (with -DPROGRAM) a program that loads the injector as the driver does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
typedef void (*request_fn)(uint8_t **, size_t *, size_t *);
typedef void (*complete_fn)(void *, uint32_t, uint8_t *, size_t, size_t);
#ifndef PROGRAM
enum { BYTES = 208 }; /* of CUpti_ActivityKernel9 */
static request_fn request;
static complete_fn complete;
static uint64_t (*stamp)(void);
static uint8_t *buffer;
static size_t size, used, lost, most;
int cuptiGetVersion(uint32_t *version) {
    const char *text = getenv("FAKE_VERSION");
    *version = text ? (uint32_t)atoi(text) : 130000;
    return 0;
}
static int has_left, is_captured;
int cuptiActivityRegisterTimestampCallback(uint64_t (*from)(void)) {
    stamp = from;
    return has_left && getenv("FAKE_LEAVES") ? 39 : 0;
}
int cuptiActivityRegisterCallbacks(request_fn a, complete_fn b) { request = a; complete = b; return 0; }
static int enabled;
static void (*on_call)(void *, uint32_t, uint32_t, const void *);
/* Of graphs: until when they run, whether one that was made while kernels were looked at is traced on, and
 * whether kernels were switched on or off amid one. */
static uint64_t busy_until;
static int is_sticky, is_wrong, is_poisoned;
static int change(int to) {
    is_wrong |= stamp && enabled != to && stamp() < busy_until;
    return enabled = to, 0;
}
int cuptiActivityEnable(uint32_t kind) {
    if (getenv("FAKE_BUSY")) return 39;
    return kind == 10 ? change(1) : kind != 3;
}
int cuptiActivityDisable(uint32_t kind) {
    is_wrong |= !request;
    return kind == 10 ? change(0) : 0;
}
/* It must not be left amid a graph, nor but at the end of a call of the driver, nor where a graph was launched while
 * it was there and kernels were off: on an H100 that graph failed then. */
static int is_in_call;
int cuptiFinalize(void) {
    is_wrong |= (stamp && stamp() < busy_until) || (on_call && !is_in_call) || is_poisoned;
    if (getenv("FAKE_STAYS")) return 999;
    on_call = NULL;
    request = NULL;
    has_left = 1;
    return enabled = 0;
}
int cuptiSubscribe(void **to, void (*call)(void *, uint32_t, uint32_t, const void *), void *data) {
    if (on_call) return 39;
    *to = &on_call;
    on_call = call;
    return data != NULL;
}
int cuptiUnsubscribe(void *from) { return *(void **)from = NULL, 0; }
int cuptiEnableDomain(uint32_t to, void *from, uint32_t domain) { return !to || from != &on_call || domain != 1; }
int cuDriverGetVersion(int *version) {
    *version = 13000;
    for (uint32_t site = 0; site < 2 && on_call; site++) {
        is_in_call = (int)site;
        on_call(NULL, 1, 2, &site);
    }
    return is_in_call = 0;
}
int cuptiActivityFlushPeriod(uint32_t ms) { return (void)ms, 0; }
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static void flush(uint32_t forced) {
    /* As the real one does while a kernel of the buffer runs. */
    if (!forced && buffer && used + BYTES <= size && getenv("FAKE_RUNNING")) return;
    uint8_t *full = buffer;
    buffer = NULL;
    if (full) complete(NULL, 0, full, size, used);
}
int cuptiActivityFlushAll(uint32_t forced) {
    pthread_mutex_lock(&lock);
    /* As an H100 did, where it was flushed amid a graph. */
    is_wrong |= stamp && stamp() < busy_until;
    is_wrong |= !request; /* nothing was to be asked of a CUPTI that was left */
    flush(forced);
    return pthread_mutex_unlock(&lock);
}
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) {
    (void)context, (void)stream;
    *count = lost;
    lost = 0;
    return 0;
}
int cuptiActivityGetNextRecord(uint8_t *from, size_t valid, uint8_t **record) {
    uint8_t *next = *record ? *record + BYTES : from;
    if (next + BYTES > from + valid) return 12;
    *record = next;
    return 0;
}
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetUuid(uint8_t *id, int device) { memset(id, 0x10 + device, 16); return 0; }
static uint8_t *add_kernel(const char *name, uint64_t start, uint64_t end, uint32_t device) {
    if (buffer && used + BYTES > size) flush(0);
    if (!buffer) {
        request(&buffer, &size, &most);
        used = 0;
    }
    uint8_t *record = buffer + used;
    used += BYTES;
    memset(record, 0xee, BYTES);
    memcpy(record, &(uint32_t){10}, 4);
    memcpy(record + 16, &start, 8);
    memcpy(record + 24, &end, 8);
    memcpy(record + 40, &device, 4);
    memcpy(record + 48, &(uint32_t){7}, 4);
    memcpy(record + 104, &name, 8);
    memcpy(record + 144, &(uint64_t){0}, 8);
    memcpy(record + 156, &(uint32_t){0}, 4);
    return record;
}
void fake_kernel(const char *name, uint64_t start, uint64_t end, uint32_t device) {
    pthread_mutex_lock(&lock);
    if (enabled) add_kernel(name, start, end, device);
    pthread_mutex_unlock(&lock);
}
/* A launch takes 2 us, and 10 us while it is seen. */
int cuLaunchKernel(void *name, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;
    (void)parameters, (void)extra;
    if (stream == (void *)3) return 0;
    uint64_t start = stamp();
    uint64_t length = enabled ? 10000 : 2000;
    while (stamp() < start + length) {}
    fake_kernel(name, start, start + 1500, 0);
    return 0;
}
/* A graph of so many kernels as its handle says, 10 us each; the host runs FAKE_AHEAD_MS ahead. Stream 3 is
 * captured, 5 from fake_capture on, 4 is never idle. Who asks 5 then spoils its graph. */
int cuGraphGetNodes(void *graph, void **nodes, size_t *count) {
    *count = (uintptr_t)graph;
    for (size_t i = 0; nodes && i < *count; i++) nodes[i] = (void *)(i + 1);
    return 0;
}
int cuGraphNodeGetType(void *node, int *type) { return *type = node == NULL, 0; }
int cuGraphChildGraphNodeGetGraph(void *node, void **graph) { return *graph = node, 1; }
int cuGraphInstantiateWithFlags(void **exec, void *graph, uint64_t flags) {
    is_sticky |= enabled;
    *exec = malloc(sizeof graph);
    memcpy(*exec, &graph, sizeof graph);
    return (int)flags;
}
int cuGraphInstantiateWithParams(void **exec, void *graph, const uint64_t *flags) {
    is_poisoned |= request && !enabled && *flags & 2;
    return cuGraphInstantiateWithFlags(exec, graph, 0);
}
int cuStreamIsCapturing(void *stream, int *is) { return *is = stream == (void *)3 || (is_captured && stream == (void *)5), 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { return *mode = 0; }
int cuStreamQuery(void *stream) {
    is_wrong |= is_captured && stream == (void *)5;
    return stream == (void *)4 || stamp() < busy_until ? 600 : 0;
}
int cuGraphUpload(void **exec, void *stream) { return is_poisoned |= request && !enabled, !exec || stream; }
int cuGraphLaunch(void **exec, void *stream) {
    uint64_t count = (uintptr_t)*exec, now = stamp(), start = now < busy_until ? busy_until : now;
    const char *text = getenv("FAKE_AHEAD_MS");
    uint64_t ahead = (text ? strtoull(text, NULL, 10) : 5) * 1000000;
    if (stream == (void *)3) return 0;
    is_poisoned |= request && !enabled;
    busy_until = start + count * 10000;
    pthread_mutex_lock(&lock);
    for (uint64_t i = 0; (enabled || is_sticky) && i < count; i++) {
        uint64_t begin = start + 10000 * i, end = begin + (i ? 4000 : 8000);
        uint8_t *record = add_kernel(i ? "small" : "large", is_wrong ? start : begin, is_wrong ? busy_until : end, 0);
        memcpy(record + 144, &(uint64_t){i + 1}, 8);
        memcpy(record + 156, &(uint32_t){5}, 4);
    }
    pthread_mutex_unlock(&lock);
    while (busy_until > stamp() + ahead) usleep(1000);
    return 0;
}
int fake_wrong(void) { return is_wrong || on_call; }
void fake_capture(void) { is_captured = 1; }
int fake_looks(void) { return enabled; }
int fake_is_there(void) { return request != NULL; }
void fake_loss(size_t count) { lost += count; }
uint64_t fake_now(void) { return stamp(); }
#else
static void (*play)(const char *, uint64_t, uint64_t, uint32_t);
static uint64_t (*fake_now)(void);
static uint64_t base;
static void kernels(long count) {
    static char names[3000][16];
    for (long i = 0; i < count; i++) {
        snprintf(names[i % 3000], sizeof *names, "kernel_%ld", i % 3000);
        play(names[i % 3000], base + 10 * (uint64_t)i, base + 5 + 10 * (uint64_t)i, (uint32_t)(i % 2));
    }
}
/* Another tool: it counts the kernels in the buffers that it gets back. */
static long others, lent;
static void other_request(uint8_t **b, size_t *s, size_t *m) {
    *b = malloc(*s = 4096);
    *m = 0;
    lent++;
}
static void other_complete(void *c, uint32_t s, uint8_t *b, size_t n, size_t v) {
    (void)c, (void)s, (void)n;
    others += (long)(v / 208);
    lent--;
    free(b);
}
static uint64_t other_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 3 * ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) + 77;
}
#define CALL(name, type, ...) ((type)dlsym(RTLD_DEFAULT, name))(__VA_ARGS__)
typedef int (*kind_fn)(uint32_t);
static int share(void) {
    CALL("cuptiActivityRegisterCallbacks", int (*)(request_fn, complete_fn), other_request, other_complete);
    CALL("cuptiActivityRegisterTimestampCallback", int (*)(uint64_t(*)(void)), other_clock);
    CALL("cuptiActivityEnable", kind_fn, 10);
    base = fake_now();
    kernels(50);
    CALL("cuptiActivityDisable", kind_fn, 10);
    /* As torch.profiler, it takes what it has for nothing where CUPTI has none of its buffers. */
    if (!lent) return 5;
    CALL("cuptiActivityFlushAll", kind_fn, 1);
    CALL("cuptiFinalize", int (*)(void));
    base = fake_now();
    kernels(25);
    return others == 50 ? 3 : 4;
}
static void end_late(void) { usleep(250000); }
static void *beside(void *launch) {
    void *kernels = (void *)1, *graph = &kernels;
    return ((int (*)(void *, void *))launch)(graph, NULL), NULL;
}
static void *until_left(void *of) {
    void **all = of;
    pthread_cancel(pthread_self());
    while (((int (*)(void))all[1])()) {
        ((int (*)(void *, void *))all[0])(all[2], NULL);
        /* Until the graph is over. */
        for (uint64_t end = fake_now() + 500000; fake_now() < end;) {}
    }
    return NULL;
}
int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    /* Behind the injector's own end. */
    if (count > 3 && !strcmp(words[3], "late")) atexit(end_late);
    void *cupti = dlopen(getenv("FAKE_CUPTI"), RTLD_NOW | RTLD_GLOBAL);
    if (!strcmp(what, "idle")) return 0;
    void *library = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
    int (*begin)(void) = (int (*)(void))dlsym(library, "InitializeInjection");
    if (!cupti || !begin || begin() != 1) return 99;
    if (!strcmp(what, "refused")) return 0;
    *(void **)&play = dlsym(cupti, "fake_kernel");
    *(void **)&fake_now = dlsym(cupti, "fake_now");
    base = fake_now ? fake_now() : 0;
    if (strcmp(what, "many") && strcmp(what, "graphs")) kernels(count > 2 ? atol(words[2]) : 10);
    if (!strcmp(what, "names")) {
        /* Each name of the file ends with a NUL. */
        static char all[1 << 20];
        FILE *file = fopen(words[3], "rb");
        char *end = all + (file ? fread(all, 1, sizeof all, file) : 0);
        for (char *name = all; name < end; name += strlen(name) + 1) {
            base += 10;
            play(name, base, base + 5, 0);
        }
    }
    if (!strcmp(what, "crash")) raise(SIGSEGV);
    if (!strcmp(what, "unfinished")) play("broken", 0, 0, 0);
    if (!strcmp(what, "loss")) ((void (*)(size_t))dlsym(cupti, "fake_loss"))(5);
    if (!strcmp(what, "clock")) {
        uint64_t now = fake_now();
        play("clock", now, now + 1, 0);
    }
    if (!strcmp(what, "shared")) return share();
    if (!strcmp(what, "fast"))
        for (int i = 0; i < 40; i++) {
            base = fake_now();
            kernels(100);
            usleep(20000);
        }
    if (!strcmp(what, "many")) {
        typedef int (*launch_fn)(const void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, void *, void **, void **);
        launch_fn launch = (launch_fn)dlsym(cupti, "cuLaunchKernel");
        /* Two of three are "often". */
        for (long i = 0; i < atol(words[2]); i++)
            launch(i % 3 ? "often" : "seldom", 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
        if (count > 3 && !strcmp(words[3], "shared")) return share();
        if (count > 3 && !strcmp(words[3], "killed")) usleep(300000), raise(SIGKILL);
    }
    if (!strcmp(what, "graphs")) {
        /* Of three launches two are of a graph of 100 kernels and one is of a graph of 40. What is launched into a
         * graph that is being captured does not run. */
        int (*launch)(void *, void *) = (int (*)(void *, void *))dlsym(cupti, "cuGraphLaunch");
        int (*make)(void **, void *, uint64_t);
        *(void **)&make = dlsym(cupti, "cuGraphInstantiateWithFlags");
        void *large, *small;
        if (make(&large, (void *)100, 0) || make(&small, (void *)40, 0)) return 98;
        void *stream = (void *)(uintptr_t)(count > 3 ? atol(words[3]) : 0);
        int (*into)(const void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                    void **, void **);
        *(void **)&into = dlsym(cupti, "cuLaunchKernel");
        for (int i = 0; i < 500; i++) {
            launch(large, (void *)3);
            into("captured", 1, 1, 1, 1, 1, 1, 0, (void *)3, NULL, NULL);
        }
        /* After so many launches the host waits for all of them. */
        long burst = count > 4 ? atol(words[4]) : 0;
        int (*is_busy)(void *);
        *(void **)&is_busy = dlsym(cupti, "cuStreamQuery");
        const char *how = count > 5 ? words[5] : "";
        int (*looks)(void) = (int (*)(void))dlsym(cupti, "fake_looks");
        int (*is_there)(void) = (int (*)(void))dlsym(cupti, "fake_is_there");
        for (int i = 0; !strcmp(how, "shared") ? i < 12000 : !strcmp(how, "upload") && looks(); i++)
            into("before", 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
        if (!strcmp(how, "upload")) CALL("cuGraphUpload", int (*)(void *, void *), large, NULL);
        if (!strcmp(how, "made") &&
            CALL("cuGraphInstantiateWithParams", int (*)(void **, void *, uint64_t *), &large, (void *)100, &(uint64_t){2}))
            return 98;
        /* It ends by being cancelled, as soon as it gets there. */
        pthread_t ending;
        if (!strcmp(how, "cancelled") && !pthread_create(&ending, NULL, until_left, (void *[]){launch, is_there, small}))
            alarm(5), pthread_join(ending, NULL);
        if (!strcmp(how, "capture")) {
            into("before", 1, 1, 1, 1, 1, 1, 0, (void *)5, NULL, NULL);
            ((void (*)(void))dlsym(cupti, "fake_capture"))();
        }
        pthread_t thread;
        if (!strcmp(how, "threads") && !pthread_create(&thread, NULL, beside, (void *)launch))
            pthread_join(thread, NULL);
        for (long i = 0; i < atol(words[2]); i++) {
            launch(i % 3 ? large : small, stream);
            while (burst && (i + 1) % burst == 0 && is_busy(stream)) usleep(1000);
        }
        while (count > 5 && is_busy(stream)) usleep(1000);
        if (((int (*)(void))dlsym(cupti, "fake_wrong"))()) return 4;
        if (!strcmp(how, "shared")) return is_there() ? 6 : share();
        if (!strcmp(how, "stuck") && is_there()) return 6;
        for (int i = 0; !strcmp(how, "stuck") && !is_there(); i++) {
            if (i > 4000) return 7;
            into("after", 1, 1, 1, 1, 1, 1, 0, (void *)4, NULL, NULL);
            usleep(1000);
        }
    }
    if (!strcmp(what, "fork") && fork() == 0) exit(0);
    while (wait(NULL) > 0) {}
    return 3;
}
#endif
