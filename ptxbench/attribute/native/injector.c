/* Writes down when each kernel of a process ran on which GPU.
 *
 * The CUDA driver loads this library by CUDA_INJECTION64_PATH and calls InitializeInjection. It asks CUPTI's
 * activity API for kernel records and appends them to files in the folder PTXBENCH_LAUNCHES:
 *
 *   PID-NS.bin     `struct launch`, one a kernel, as they come
 *   PID-NS.ranges  `struct range`, one an NVTX range, when it ends
 *   PID-NS.txt     lines: "cupti VERSION", "name ID NAME" (escaped: see say_name), "device ORDINAL UUID",
 *                  "dropped COUNT", "shared NS" (another tool uses CUPTI beside), "off NS LAUNCHED IN_GRAPHS"
 *                  and "on NS LAUNCHED IN_GRAPHS" (kernels are not seen between them; kernels launched one by
 *                  one and in graphs until then by launch_timer.c, 0 without it), "at NS LAUNCHED IN_GRAPHS"
 *                  meanwhile, "refused WHY", "stays WHY" (CUPTI is not left), "end NS LAUNCHED IN_GRAPHS"
 *
 * CUPTI serves one tool. Where this library is preloaded as well, another tool's calls come through here: this
 * library stays registered, hands the other tool buffers that it asked for, and reads the kernels in them.
 *
 * NVTX loads the same library by NVTX_INJECTION64_PATH and calls InitializeInjectionNvtx2. The layouts are those
 * of nvtxTypes.h and nvToolsExt.h, version 3.
 *
 * Everything goes out by write(2): a process that is killed loses what CUPTI still held. Nothing here ends or
 * slows down the program when something fails: it is said in the text file, and the program goes on.
 *
 * The layout of a record is the common beginning of CUpti_ActivityKernel5 (CUDA 11.0) to
 * CUpti_ActivityKernel13 (CUDA 13.5) in cupti_activity.h, where fields were only ever added at the end.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct record {
    uint32_t kind;
    uint8_t before_start[12];
    uint64_t start_ns, end_ns, completed_ns;
    uint32_t device, context, stream;
    uint8_t grid_and_memory[40];
    uint32_t correlation;
    int64_t grid_id;
    const char *name;
    void *reserved;
    uint64_t queued_ns, submitted_ns;
    uint8_t launch_type[4];
    uint32_t shared_bytes;
    uint64_t graph_node;
    uint32_t shared_limit, graph; /* since CUpti_ActivityKernel6 (CUDA 11.1) */
};
_Static_assert(offsetof(struct record, start_ns) == 16, "start");
_Static_assert(offsetof(struct record, device) == 40, "deviceId");
_Static_assert(offsetof(struct record, correlation) == 92, "correlationId");
_Static_assert(offsetof(struct record, name) == 104, "name");
_Static_assert(offsetof(struct record, graph_node) == 144, "graphNodeId");
_Static_assert(offsetof(struct record, graph) == 156, "graphId");

/* `graph` is its number in CUPTI, 0 of what is in none. */
struct launch {
    uint64_t start_ns, end_ns;
    uint32_t name, device, stream, graph;
};

struct range {
    uint64_t start_ns, end_ns;
    uint32_t name, thread;
};

/* nvtxEventAttributes_t. */
struct event {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};
_Static_assert(offsetof(struct event, message_type) == 32, "messageType");
_Static_assert(offsetof(struct event, message) == 40, "message");

typedef uint64_t (*clock_fn)(void);
typedef void (*request_fn)(uint8_t **, size_t *, size_t *);
typedef void (*complete_fn)(void *, uint32_t, uint8_t *, size_t, size_t);
typedef int (*register_fn)(request_fn, complete_fn);
typedef void (*called_fn)(void *, uint32_t, uint32_t, const void *);

enum { KIND_CONCURRENT_KERNEL = 10, ALIGN = 8, BATCH = 1024, FLUSH_MS = 200 };
enum { MOST_NESTED = 256, MOST_OPEN = 1024, MOST_NAME = 4096 };
enum { MESSAGE_ASCII = 1, MESSAGE_UNICODE = 2, MESSAGE_REGISTERED = 3 };
/* A turn of looking lasts SLICE_MS, or until it has seen what LOOK_S allow, or FEW_GRAPHS in FEW_TICKS. A launch of
 * a graph counts as GRAPH_COSTS kernels, and behind a turn with graphs none is looked at for GRAPHS_OFF as long:
 * an H100's host took 1.3 to 2.5 times as long for its graphs while they were looked at. */
enum { SLICE_MS = 100, TICK_MS = 10, LOOK_S = 2, FEW_GRAPHS = 3, FEW_TICKS = 2, GRAPH_COSTS = 100, GRAPHS_OFF = 99 };
enum { MOST_OFF_S = 10, MOST_WAIT_S = 2 };
/* Where CUPTI is left, what a turn takes the program is 1/TURN_COSTS of the time, up to MOST_LEFT_S: to bring CUPTI
 * back and to leave it, 25 ms on an H100, and LOOK_NS for each kernel in a graph that is looked at. */
enum { MOST_LEFT_S = 60, LOOK_NS = 2000 };
#ifndef TURN_COSTS
enum { TURN_COSTS = 200 };
#endif
#define WHOLE_GRAPH "(a CUDA graph)"
#define NEARLY_ALL 0.95 /* of what was launched: launches into a graph that is made are not seen */
enum { LEAST_BYTES = 1 << 12, MOST_BYTES = 1 << 20 };
/* CUPTI_API_VERSION: 14 is CUDA 11.0, the first with this layout; 13.x is 130000 and up. */
enum { OLDEST_API = 14, NEXT_API = 140000 };
/* CUPTI that was left and brought back on a GPU; that of CUDA before 12.6 is said to crash where there are graphs. */
enum { LEAVING_API = 130000, DOMAIN_DRIVER = 1, SITE_ENTER = 0, SITE_EXIT = 1 };

static struct {
    register_fn register_callbacks;
    int (*enable)(uint32_t);
    int (*disable)(uint32_t);
    int (*next_record)(uint8_t *, size_t, struct record **);
    int (*dropped)(void *, uint32_t, size_t *);
    int (*flush_all)(uint32_t);
    int (*flush_period)(uint32_t);
    int (*timestamps)(clock_fn);
    int (*version)(uint32_t *);
    int (*finalize)(void);
    int (*subscribe)(void **, called_fn, void *);
    int (*unsubscribe)(void *);
    int (*enable_domain)(uint32_t, void *, uint32_t);
} cupti;

static struct {
    int bin, text, ranges, is_on, is_off;
    volatile int is_replaying; /* kernels are not looked at meanwhile */
    volatile int asks_off;     /* the turn that is wanted; `is_off` is the one that was taken */
    volatile uint64_t asked_ns; /* since when it is */
    /* When kernels began to be looked at, or the first graph was launched, and how many graphs there had been. */
    volatile uint64_t look_ns, look_graphs;
    volatile int is_ending;    /* CUPTI is no longer removed */
    volatile int has_ended;    /* what comes behind is not looked at */
    volatile int waits;        /* threads that wait for their stream, to take a turn */
    volatile int is_in_vain;   /* they did, so that kernels are looked at all the time where there are graphs */
    int making, is_paused;     /* graphs that are being made, and whether kernels are not looked at for that */
    volatile int has_left;     /* CUPTI is no longer in the process */
    const char *volatile stays; /* why it is not to be left; NULL: it is */
    uint64_t turning_ns;       /* what turns took the program's threads */
    pid_t pid;
    pthread_mutex_t lock;
    uint64_t devices_said, begin_ns, seen, seen_in_graphs, launched, in_graphs, graphs, graphs_made;
    size_t dropped;
} state = {.bin = -1, .text = -1, .ranges = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

/* Another tool of this process. Its kinds are a bit each; `clock` is its own, read at `clock_at` when the host's
 * was `host_at`; `buffers` are those that it gave and has not got back. */
static struct {
    request_fn request;
    complete_fn complete;
    uint64_t kinds;
    clock_fn clock;
    uint64_t clock_at, host_at;
    uint8_t *buffers[MOST_OPEN];
} other;

/* What replay.c does when CUPTI is on, and with each kernel that CUPTI shows; NULL without it. */
static void (*on_start)(void);
static void (*on_record)(const struct record *, uint32_t);

/* CUptiResult of the last step of starting; 0 where it was not CUPTI that failed. */
static int last_code;

/* Recursive: CUPTI, or another tool that it calls, may come back here amid a turn. */
static pthread_mutex_t turn_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* Names by their text: CUPTI may give one name at several addresses, and reuse an address. */
static struct {
    char **text;
    size_t count, slots;
    uint32_t *slot; /* index + 1; 0: free */
} names;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Writes all or nothing, so that nothing joins a torn piece where the disk was full; returns whether it did. */
static int put(int file, const void *from, size_t bytes) {
    const char *at = from;
    while (bytes) {
        ssize_t done = write(file, at, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            off_t end = lseek(file, 0, SEEK_END), written = at - (const char *)from;
            return end >= written && ftruncate(file, end - written) && 0;
        }
        at += done;
        bytes -= (size_t)done;
    }
    return 1;
}

__attribute__((format(printf, 1, 2))) static int say(const char *format, ...) {
    char line[512];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    return length > 0 && state.text >= 0 &&
           put(state.text, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

/* Says how many kernels were lost, now or as soon as the disk is not full. */
static void say_dropped(size_t count) {
    size_t all = count + __atomic_exchange_n(&state.dropped, 0, __ATOMIC_RELAXED);
    if (all && !say("dropped %zu\n", all)) __atomic_fetch_add(&state.dropped, all, __ATOMIC_RELAXED);
}

static uint64_t hash(const char *text) {
    uint64_t value = 14695981039346656037u; /* FNV-1a */
    while (*text) value = (value ^ (uint8_t)*text++) * 1099511628211u;
    return value;
}

static int grow(void) {
    size_t slots = names.slots ? 2 * names.slots : 1024;
    uint32_t *slot = calloc(slots, sizeof *slot);
    char **text = slot ? realloc(names.text, slots / 2 * sizeof *text) : NULL;
    if (!text) {
        free(slot);
        return 0;
    }
    names.text = text;
    for (size_t i = 0; i < names.count; i++) {
        size_t at = hash(text[i]) & (slots - 1);
        while (slot[at]) at = (at + 1) & (slots - 1);
        slot[at] = (uint32_t)i + 1;
    }
    free(names.slot);
    names.slot = slot;
    names.slots = slots;
    return 1;
}

/* Writes a name so that it is one line of one name: a backslash as two, what is below a blank as \xHH. */
static int say_name(uint32_t number, const char *name) {
    char line[4 * MOST_NAME + 32];
    char *to = line + sprintf(line, "name %u ", number);
    for (; *name; name++) {
        if (*name == '\\')
            to += sprintf(to, "\\\\");
        else if ((uint8_t)*name < ' ')
            to += sprintf(to, "\\x%02x", (unsigned)(uint8_t)*name);
        else
            *to++ = *name;
    }
    *to++ = '\n';
    return put(state.text, line, (size_t)(to - line));
}

/* Returns the number of a name, and writes it down the first time; UINT32_MAX without memory or disk. */
static uint32_t number_of(const char *given) {
    char cut[MOST_NAME];
    const char *name = given ? given : "(no name)";
    if (strlen(name) >= sizeof cut) {
        memcpy(cut, name, sizeof cut - 1);
        cut[sizeof cut - 1] = 0;
        name = cut;
    }
    if (names.count * 2 >= names.slots && !grow()) return UINT32_MAX;
    size_t at = hash(name) & (names.slots - 1);
    for (; names.slot[at]; at = (at + 1) & (names.slots - 1))
        if (!strcmp(names.text[names.slot[at] - 1], name)) return names.slot[at] - 1;
    char *copy = strdup(name);
    uint32_t number = (uint32_t)names.count;
    if (!copy || !say_name(number, name)) {
        free(copy);
        return UINT32_MAX;
    }
    names.count++;
    names.text[number] = copy;
    names.slot[at] = number + 1;
    return number;
}

static void say_device(uint32_t ordinal) {
    if (ordinal >= 64 || state.devices_said >> ordinal & 1) return;
    state.devices_said |= (uint64_t)1 << ordinal;
    int (*get)(int *, int) = (int (*)(int *, int))dlsym(RTLD_DEFAULT, "cuDeviceGet");
    int (*uuid)(uint8_t *, int) = (int (*)(uint8_t *, int))dlsym(RTLD_DEFAULT, "cuDeviceGetUuid");
    void *driver = get && uuid ? NULL : dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver) {
        get = (int (*)(int *, int))dlsym(driver, "cuDeviceGet");
        uuid = (int (*)(uint8_t *, int))dlsym(driver, "cuDeviceGetUuid");
    }
    uint8_t id[16];
    int device;
    if (!get || !uuid || get(&device, (int)ordinal) || uuid(id, device)) return;
    char text[37], *to = text;
    for (int i = 0; i < 16; i++)
        to += sprintf(to, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", id[i]);
    say("device %u GPU-%s\n", ordinal, text);
}

/* A buffer that holds a running kernel comes back only when it is full. A small one soon is, so that a program
 * that dies has written all but its last twenty kernels; one that fills buffers fast gets larger ones. */
static size_t next_bytes(void) {
    static size_t bytes = LEAST_BYTES;
    static uint64_t before_ns;
    pthread_mutex_lock(&state.lock);
    uint64_t at_ns = now_ns(), since_ns = at_ns - before_ns;
    if (before_ns && since_ns < FLUSH_MS * 1000000u / 4 && bytes < MOST_BYTES) bytes *= 2;
    if (since_ns > FLUSH_MS * 1000000u && bytes > LEAST_BYTES) bytes /= 2;
    before_ns = at_ns;
    size_t chosen = bytes;
    pthread_mutex_unlock(&state.lock);
    return chosen;
}

/* Returns whether a buffer is the other tool's, and forgets it if asked to. */
static int is_theirs(uint8_t *buffer, int forget) {
    for (size_t i = 0; i < MOST_OPEN; i++)
        if (other.buffers[i] == buffer) {
            if (forget) other.buffers[i] = NULL;
            return 1;
        }
    return 0;
}

/* Asks the other tool for a buffer; returns 0 where it is not to be asked. */
static int request_theirs(uint8_t **buffer, size_t *size, size_t *most) {
    pthread_mutex_lock(&state.lock);
    int has_room = is_theirs(NULL, 0);
    request_fn request = other.kinds && has_room ? other.request : NULL;
    pthread_mutex_unlock(&state.lock);
    if (!request) return 0;
    request(buffer, size, most);
    pthread_mutex_lock(&state.lock);
    for (size_t i = 0; i < MOST_OPEN && *buffer; i++)
        if (!other.buffers[i]) {
            other.buffers[i] = *buffer;
            break;
        }
    pthread_mutex_unlock(&state.lock);
    return 1;
}

static void on_request(uint8_t **buffer, size_t *size, size_t *most) {
    if (request_theirs(buffer, size, most)) return;
    void *made = NULL;
    size_t bytes = next_bytes();
    *most = 0;
    *size = posix_memalign(&made, ALIGN, bytes) ? 0 : bytes;
    *buffer = *size ? made : NULL;
}

/* Returns the host's time of a time stamp, which may be by the other tool's clock; 0 where it is neither. */
static uint64_t host_ns(uint64_t stamp, uint64_t now, double rate) {
    if (stamp >= state.begin_ns && stamp <= now) return stamp;
    if (!other.clock) return 0;
    double since = (double)(int64_t)(stamp - other.clock_at) * rate;
    double at = (double)other.host_at + since;
    return at >= (double)state.begin_ns && at <= (double)now ? (uint64_t)at : 0;
}

/* Writes down the kernels of a buffer. */
static void read_buffer(uint8_t *buffer, size_t valid) {
    struct launch batch[BATCH];
    size_t filled = 0, lost = 0;
    struct record *record = NULL;
    uint64_t now = now_ns() + 1000000000u;
    uint64_t ticks = other.clock ? other.clock() - other.clock_at : 0;
    double rate = ticks ? (double)(now_ns() - other.host_at) / (double)ticks : 0;
    while (valid && buffer && cupti.next_record(buffer, valid, &record) == 0) {
        if (record->kind != KIND_CONCURRENT_KERNEL) continue;
        uint32_t graph = record->graph_node && !record->graph ? UINT32_MAX : record->graph;
        struct launch one = {host_ns(record->start_ns, now, rate), host_ns(record->end_ns, now, rate),
                             number_of(record->name), record->device, record->stream,
                             record->graph_node ? graph : 0};
        state.seen++;
        state.seen_in_graphs += record->graph_node != 0;
        /* A kernel that did not end has no times. */
        if (one.name == UINT32_MAX || !one.start_ns || one.end_ns < one.start_ns) {
            lost++;
            continue;
        }
        say_device(one.device);
        if (on_record) on_record(record, one.name);
        batch[filled++] = one;
        if (filled == BATCH) {
            lost += put(state.bin, batch, sizeof batch) ? 0 : filled;
            filled = 0;
        }
    }
    lost += put(state.bin, batch, filled * sizeof *batch) ? 0 : filled;
    say_dropped(lost);
}

/* CUPTI may call this amid a launch: a thread that was cancelled here would keep the lock. */
static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_mutex_lock(&state.lock);
    read_buffer(buffer, valid);
    int theirs = buffer && is_theirs(buffer, 1);
    complete_fn complete = other.complete;
    size_t dropped = 0;
    /* The count is reset by asking, so that it is left to the other tool. */
    if (!theirs && !state.has_left && cupti.dropped(context, stream, &dropped) == 0) say_dropped(dropped);
    pthread_mutex_unlock(&state.lock);
    pthread_setcancelstate(before, NULL);
    if (theirs && complete)
        complete(context, stream, buffer, size, valid);
    else if (!theirs)
        free(buffer);
}

static const char *const cupti_names[] = {"libcupti.so.13", "libcupti.so.12"};

/* Returns CUPTI's own function. A Python package loads CUPTI where RTLD_NEXT does not look. */
static void *next_of(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    for (int i = 0; i < 2 && !found; i++) {
        void *loaded = dlopen(cupti_names[i], RTLD_LAZY | RTLD_NOLOAD);
        if (loaded) found = dlsym(loaded, name);
    }
    return found;
}

/* Another tool's calls. Before this library is on, or in a forked child, they go on to CUPTI as they are. */
static int stands_between(void) { return state.is_on && getpid() == state.pid; }

#define EXPORTED __attribute__((visibility("default")))
#define NEXT(name) ((__typeof__(&name))next_of(#name))

static void take_turn(int is_idle);
static void come_back(void);

EXPORTED int cuptiActivityRegisterCallbacks(request_fn request, complete_fn complete) {
    if (!stands_between()) {
        register_fn next = NEXT(cuptiActivityRegisterCallbacks);
        return next ? next(request, complete) : 999; /* CUPTI_ERROR_UNKNOWN */
    }
    come_back();
    cupti.flush_all(0);
    pthread_mutex_lock(&state.lock);
    other.request = request;
    other.complete = complete;
    say("shared %llu\n", (unsigned long long)now_ns());
    pthread_mutex_unlock(&state.lock);
    return 0;
}

EXPORTED int cuptiActivityEnable(uint32_t kind) {
    if (!stands_between()) {
        int (*next)(uint32_t) = NEXT(cuptiActivityEnable);
        return next ? next(kind) : 999;
    }
    come_back();
    int code = cupti.enable(kind);
    if (code) return code;
    pthread_mutex_lock(&state.lock);
    int is_first = !other.kinds;
    if (kind < 64) other.kinds |= (uint64_t)1 << kind;
    pthread_mutex_unlock(&state.lock);
    if (state.is_off) take_turn(0);
    if (!is_first) return 0;
    /* The other tool sees kernels in its own buffers only: this one's, half full, goes back now. torch.profiler
     * finds its records only while CUPTI still has a buffer of it, so that nothing flushes from here on. */
    cupti.flush_period(0);
    cupti.flush_all(1);
    return 0;
}

EXPORTED int cuptiActivityDisable(uint32_t kind) {
    if (!stands_between()) {
        int (*next)(uint32_t) = NEXT(cuptiActivityDisable);
        return next ? next(kind) : 999;
    }
    come_back();
    int code = kind == KIND_CONCURRENT_KERNEL ? 0 : cupti.disable(kind);
    pthread_mutex_lock(&state.lock);
    if (kind < 64) other.kinds &= ~((uint64_t)1 << kind);
    pthread_mutex_unlock(&state.lock);
    return code;
}

EXPORTED int cuptiActivityRegisterTimestampCallback(clock_fn clock) {
    if (!stands_between()) {
        int (*next)(clock_fn) = NEXT(cuptiActivityRegisterTimestampCallback);
        return next ? next(clock) : 999;
    }
    come_back();
    int code = cupti.timestamps(clock);
    if (code || !clock) return code;
    pthread_mutex_lock(&state.lock);
    other.clock_at = clock();
    other.host_at = now_ns();
    other.clock = clock;
    pthread_mutex_unlock(&state.lock);
    return 0;
}

/* A tool that is done may remove CUPTI from the process; this one is not done. */
EXPORTED int cuptiFinalize(void) {
    if (stands_between()) return 0;
    int (*next)(void) = NEXT(cuptiFinalize);
    return next ? next() : 999;
}

/* How many kernels were seen and launched, and how many graphs. */
struct tally {
    uint64_t seen, launched, graphs;
};

static uint64_t count_of(const uint64_t *count) { return __atomic_load_n(count, __ATOMIC_RELAXED); }

static struct tally tally(void) {
    pthread_mutex_lock(&state.lock);
    struct tally now = {state.seen, count_of(&state.launched) + count_of(&state.in_graphs), count_of(&state.graphs)};
    pthread_mutex_unlock(&state.lock);
    return now;
}

/* Where there are graphs nothing is flushed but between two turns: flushed meanwhile, an H100 gave the kernels of
 * graphs the times of the whole graph (studies/programs). */
static int has_graphs(void) {
    return state.seen_in_graphs || count_of(&state.graphs) || count_of(&state.graphs_made);
}

static struct tally flushed_tally(void) {
    pthread_mutex_lock(&turn_lock);
    int flushes = !state.has_left && !has_graphs(), stays = state.stays != NULL;
    /* Another tool's callbacks may wait for a thread of its own that comes here; there CUPTI stays. */
    if (stays) pthread_mutex_unlock(&turn_lock);
    if (flushes) cupti.flush_all(0);
    if (!stays) pthread_mutex_unlock(&turn_lock);
    return tally();
}

static void say_time(const char *what) {
    say("%s %llu %llu %llu\n", what, (unsigned long long)now_ns(), (unsigned long long)count_of(&state.launched),
        (unsigned long long)count_of(&state.in_graphs));
}

/* Says that kernels are not seen from here on, or are again. */
static void say_turn(int is_off) {
    pthread_mutex_lock(&state.lock);
    if (state.is_off != is_off && !state.has_ended) say_time(is_off ? "off" : "on");
    state.is_off = is_off;
    pthread_mutex_unlock(&state.lock);
}

static const char *switch_on(void);
static int are_idle(void);
static void sleep_s(double time_s);
static __thread volatile int is_leaving;
static volatile int leaving_code; /* of CUPTI */

static void at_call(void *data, uint32_t domain, uint32_t id, const void *call) {
    (void)data, (void)domain, (void)id;
    if (!is_leaving || *(const int *)call != SITE_EXIT) return;
    is_leaving = 0;
    leaving_code = cupti.finalize();
}

/* Held by threads that launch; for a thread that removes CUPTI, or brings it back, none does. */
static pthread_rwlock_t launching = PTHREAD_RWLOCK_INITIALIZER;

static int stop_launches(void) {
    for (int i = 0; i < SLICE_MS; i++) {
        if (!pthread_rwlock_trywrlock(&launching)) return 1;
        sleep_s(1e-3);
    }
    return 0;
}

/* Keeps CUPTI in the process from here on. */
static void stay(const char *why) {
    if (!state.stays) state.stays = why;
}

static void say_stays(void) {
    static int is_said;
    if (state.stays && !__atomic_exchange_n(&is_said, 1, __ATOMIC_RELAXED)) say("stays %s\n", state.stays);
}

static int finalize(void) {
    void *subscriber = NULL;
    int version, (*call)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, "cuDriverGetVersion");
    void *library = call ? NULL : dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library) *(void **)&call = dlsym(library, "cuDriverGetVersion");
    if (!call || !are_idle() || cupti.subscribe(&subscriber, at_call, NULL)) return 0;
    if (cupti.enable_domain(1, subscriber, DOMAIN_DRIVER)) {
        cupti.unsubscribe(subscriber);
        return 0;
    }
    state.has_left = is_leaving = 1;
    call(&version);
    if (is_leaving) leaving_code = cupti.finalize();
    is_leaving = 0;
    if (!leaving_code) return 1;
    state.has_left = 0;
    cupti.unsubscribe(subscriber);
    stay("CUPTI does not let itself be removed");
    return 0;
}

/* Removes CUPTI from the process; where it cannot, it stays. While it is there, a host that waits for each graph was
 * 9 to 17% slower though nothing was looked at (studies/programs). That is done at the end of a call of the driver,
 * as NVIDIA recommends, while nothing runs that was launched, and not where another tool has CUPTI, too. A graph
 * that was launched while CUPTI was there and looked at nothing does not outlive it: then CUPTI stays as well. */
static void leave(void) {
    if (state.is_ending) return;
    if (!cupti.finalize) stay("it is older than that of CUDA 13");
    if (on_record || other.request || other.kinds) stay("another tool, or a replay, needs it");
    if (state.devices_said & (state.devices_said - 1)) stay("the process uses several GPUs");
    if (!state.stays && stop_launches()) {
        /* Until launches stopped, another thread may have said why it is to stay. */
        if (!state.stays && !finalize()) stay("another stream was busy, or another tool has its callbacks");
        pthread_rwlock_unlock(&launching);
    }
    if (!state.has_left) stay("a launch took too long");
    say_stays();
}

/* Looks at kernels, or no longer; returns CUPTI's code. */
static int look(int is_off) {
    if (is_off) return state.has_left ? 0 : cupti.disable(KIND_CONCURRENT_KERNEL);
    if (!state.has_left) return cupti.enable(KIND_CONCURRENT_KERNEL);
    if (!stop_launches()) return -1;
    int is_on = !switch_on();
    if (is_on) state.has_left = 0;
    pthread_rwlock_unlock(&launching);
    return is_on ? 0 : last_code;
}

/* Another tool wants CUPTI, and what it does next must not find it removed. Once it has buffers, nothing is waited
 * for here: a turn may wait for what this thread of the tool holds. */
static void come_back(void) {
    static volatile int is_wanted;
    if (is_wanted && !state.has_left) return;
    pthread_mutex_lock(&turn_lock);
    is_wanted = 1;
    stay("another tool, or a replay, needs it");
    if (state.has_left && !look(0)) say_turn(state.asks_off = 0);
    pthread_mutex_unlock(&turn_lock);
}

static struct tally turned; /* as it was when the last turn was taken */

static void begin_looking(void) {
    state.look_graphs = count_of(&state.graphs);
    state.look_ns = now_ns();
}

/* Sees kernels or no longer, as was asked for. Where nothing runs, CUPTI gives what it has before. */
static void take_turn(int is_idle) {
    pthread_mutex_lock(&turn_lock);
    if (other.kinds || (state.is_in_vain && !is_idle)) state.asks_off = 0;
    /* CUPTI comes back while nothing runs, where that can be waited for. */
    int is_early = state.has_left && !is_idle && !other.kinds && !state.is_in_vain;
    if (!state.making && !state.has_ended && !is_early && state.asks_off != state.is_off) {
        uint64_t begin_ns = now_ns();
        if (is_idle && !state.has_left && !other.kinds) cupti.flush_all(1);
        if (!state.asks_off && !state.is_replaying) state.asks_off = look(0) != 0;
        say_turn(state.asks_off);
        if (state.asks_off && look(1)) say_turn(state.asks_off = 0);
        turned = tally();
        if (!state.asks_off) begin_looking();
        if (state.asks_off && is_idle && !state.has_left) leave();
        state.turning_ns += now_ns() - begin_ns;
    }
    pthread_mutex_unlock(&turn_lock);
}

/* What was launched when kernels were no longer looked at because a graph was made. */
static struct {
    uint64_t at_ns, launched, in_graphs;
} paused;

/* A graph that is made while kernels are looked at costs the same when they no longer are (studies/programs). */
static void before_making(void) {
    pthread_mutex_lock(&turn_lock);
    __atomic_fetch_add(&state.graphs_made, 1, __ATOMIC_RELAXED);
    int looks = stands_between() && !state.is_off && !state.is_replaying && !other.kinds && !on_record;
    if (!state.making++ && looks) state.is_paused = 1, state.is_paused = !look(1);
    if (state.making == 1 && state.is_paused) {
        paused.at_ns = now_ns();
        paused.launched = count_of(&state.launched);
        paused.in_graphs = count_of(&state.in_graphs);
    }
    pthread_mutex_unlock(&turn_lock);
}

static void after_making(void) {
    pthread_mutex_lock(&turn_lock);
    if (!--state.making && state.is_paused) {
        state.is_paused = 0;
        look(0);
        pthread_mutex_lock(&state.lock);
        /* Other threads may have launched kernels meanwhile. */
        int is_missed = count_of(&state.launched) != paused.launched || count_of(&state.in_graphs) != paused.in_graphs;
        if (is_missed && !state.has_ended) {
            say("off %llu %llu %llu\n", (unsigned long long)paused.at_ns, (unsigned long long)paused.launched,
                (unsigned long long)paused.in_graphs);
            say_time("on");
        }
        pthread_mutex_unlock(&state.lock);
    }
    pthread_mutex_unlock(&turn_lock);
}

static void sleep_s(double time_s) {
    struct timespec pause = {(time_t)time_s, (long)((time_s - (double)(time_t)time_s) * 1e9)};
    nanosleep(&pause, NULL);
}

static void say_launched(void) {
    pthread_mutex_lock(&state.lock);
    if (state.is_off && !state.has_ended) say_time("at");
    pthread_mutex_unlock(&state.lock);
}

/* Sleeps while kernels are not looked at, and says what is launched, as the program may be killed. */
static void sleep_off(double time_s) {
    for (double left_s = time_s, part_s; left_s > 0 && state.is_off; left_s -= part_s) {
        part_s = left_s < FLUSH_MS / 1e3 ? left_s : FLUSH_MS / 1e3;
        sleep_s(part_s);
        say_launched();
    }
}

/* Asks for a turn, and returns whether it was taken. A thread that launches graphs takes it between two of them,
 * when its stream is idle: graphs that wait to run when kernels are looked at again are seen, but were not launched
 * to be. While the host waits for them it launches nothing, not even kernels one by one. */
static int ask_for(int is_off, int by_launch) {
    uint64_t alone = count_of(&state.launched);
    if (state.asks_off != is_off) state.asked_ns = now_ns();
    state.asks_off = is_off;
    for (int i = 0; by_launch && state.asks_off != state.is_off && !state.has_ended; i++) {
        if (i >= SLICE_MS && !state.waits && count_of(&state.launched) != alone) break;
        sleep_s(1e-3);
        if (i % FLUSH_MS == FLUSH_MS - 1) say_launched();
    }
    take_turn(0);
    pthread_mutex_lock(&turn_lock);
    int taken = state.is_off == is_off;
    if (!taken && is_off) state.asks_off = 0;
    pthread_mutex_unlock(&turn_lock);
    return taken;
}

/* Behind a replay what it launched is no longer counted. */
static uint64_t launched_between(struct tally since, struct tally now) {
    return now.launched > since.launched ? now.launched - since.launched : 0;
}

/* Returns how many kernels were looked at. A host that runs ahead launches them long before they run. */
static double looked_at(struct tally since, struct tally now) {
    uint64_t seen = now.seen - since.seen, launched = launched_between(since, now);
    return (double)((seen > launched ? seen : launched) + GRAPH_COSTS * (now.graphs - since.graphs));
}

/* Waits for the end of a turn of looking that began with `since`. */
static struct tally after_turn(struct tally since, double enough) {
    struct tally now = since;
    for (int i = 1; i <= SLICE_MS / TICK_MS; i++) {
        sleep_s(TICK_MS / 1e3);
        now = tally();
        uint64_t graphs = now.graphs - since.graphs;
        if (graphs ? graphs >= FEW_GRAPHS && i >= FEW_TICKS : looked_at(since, now) >= enough) break;
    }
    return flushed_tally();
}

/* Sees kernels in turns where they come too fast, so that half of what is allowed is looked at in the mean.
 *
 * What was launched to be seen is waited for. Where launches of graphs cannot be counted, all kernels are seen:
 * how many of a graph's there are between two turns would not be known. */
static void *limit_rate(void *limit) {
    double most = *(double *)limit;
    uint64_t turning_ns = 0, seen_in_graphs = 0; /* at the end of the turn before */
    while (state.is_on && !state.has_ended && getpid() == state.pid) {
        take_turn(0); /* which a graph that was being made had put off */
        struct tally before = flushed_tally(), after;
        uint64_t begin_ns = now_ns();
        after = after_turn(before, most / 2 * LOOK_S);
        double rate = looked_at(before, after) / ((double)(now_ns() - begin_ns) / 1e9);
        int is_counted = !state.seen_in_graphs || count_of(&state.graphs);
        /* While another tool or a replay wants kernels, none is left out. */
        int wants_all = other.kinds || state.is_replaying || state.is_in_vain || (on_record && has_graphs());
        if (rate <= most || wants_all || !is_counted) continue;
        if (!ask_for(1, after.graphs != before.graphs)) continue;
        after = turned;
        double on_s = (double)(now_ns() - begin_ns) / 1e9, off_s = looked_at(before, after) / (most / 2) - on_s;
        uint64_t cost_ns = state.turning_ns - turning_ns + LOOK_NS * (state.seen_in_graphs - seen_in_graphs);
        turning_ns = state.turning_ns;
        seen_in_graphs = state.seen_in_graphs;
        if (state.has_left)
            off_s = TURN_COSTS * (double)cost_ns / 1e9;
        else if (after.graphs != before.graphs && off_s < GRAPHS_OFF * on_s)
            off_s = GRAPHS_OFF * on_s;
        double most_s = state.has_left ? MOST_LEFT_S : MOST_OFF_S;
        sleep_off(off_s < most_s ? off_s : most_s);
        double launched = (double)launched_between(before, after);
        struct tally end = flushed_tally();
        for (int i = 0; i < MOST_WAIT_S * 1000 / SLICE_MS && state.is_off && !state.is_replaying; i++) {
            if ((double)(end.seen - before.seen) >= NEARLY_ALL * launched) break;
            sleep_off(SLICE_MS / 1e3);
            end = flushed_tally();
        }
        /* Where CUPTI cannot be brought back now, launches are not held up soon again. */
        while (!ask_for(0, tally().graphs != after.graphs) && !state.has_ended && getpid() == state.pid)
            sleep_off(state.asks_off ? most_s : SLICE_MS / 1e3);
    }
    return NULL;
}

static void start_limit(void) {
    static double most;
    const char *text = getenv("PTXBENCH_MAX_LAUNCH_RATE");
    most = text ? atof(text) : 0;
    pthread_t thread;
    if (most > 0 && pthread_create(&thread, NULL, limit_rate, &most) == 0)
        pthread_detach(thread);
    else
        cupti.flush_period(FLUSH_MS);
}

static void at_end(void) {
    /* A forked child has the handler, but no CUDA. */
    if (!state.is_on || getpid() != state.pid) return;
    /* Another thread may just remove CUPTI; from here on none does. */
    int is_mine = 0;
    for (int i = 0; i < 1000 && !(is_mine = !pthread_mutex_trylock(&turn_lock)); i++) sleep_s(1e-3);
    state.is_ending = 1;
    int is_there = is_mine && !state.has_left;
    if (is_mine) pthread_mutex_unlock(&turn_lock);
    if (is_there) cupti.flush_all(1);
    say_dropped(0);
    say_turn(0);
    pthread_mutex_lock(&state.lock);
    say_time("end");
    state.has_ended = 1;
    pthread_mutex_unlock(&state.lock);
}

static void *open_cupti(void) {
    for (int i = 0; i < 2; i++) {
        void *loaded = dlopen(cupti_names[i], RTLD_LAZY | RTLD_NOLOAD);
        if (loaded) return loaded;
    }
    const char *list = getenv("PTXBENCH_CUPTI");
    char *copy = strdup(list ? list : ""), *rest = copy, *path;
    void *opened = NULL;
    while (copy && !opened && (path = strsep(&rest, ":"))) opened = dlopen(path, RTLD_LAZY);
    free(copy);
    return opened;
}

static const char *find_functions(void *library) {
    if (!library) return "no libcupti can be loaded";
#define FIND(member, name)                                      \
    *(void **)&cupti.member = dlsym(library, name);             \
    if (!cupti.member) return "libcupti has no " name
    FIND(register_callbacks, "cuptiActivityRegisterCallbacks");
    FIND(enable, "cuptiActivityEnable");
    FIND(disable, "cuptiActivityDisable");
    FIND(next_record, "cuptiActivityGetNextRecord");
    FIND(dropped, "cuptiActivityGetNumDroppedRecords");
    FIND(flush_all, "cuptiActivityFlushAll");
    FIND(flush_period, "cuptiActivityFlushPeriod");
    FIND(timestamps, "cuptiActivityRegisterTimestampCallback");
    FIND(version, "cuptiGetVersion");
#undef FIND
    uint32_t version = 0;
    last_code = cupti.version(&version);
    if (last_code) return "libcupti does not work here";
    if (version < OLDEST_API || version >= NEXT_API)
        return "this version of libcupti is not known";
    *(void **)&cupti.subscribe = dlsym(library, "cuptiSubscribe");
    *(void **)&cupti.unsubscribe = dlsym(library, "cuptiUnsubscribe");
    *(void **)&cupti.enable_domain = dlsym(library, "cuptiEnableDomain");
    if (version >= LEAVING_API && cupti.subscribe && cupti.unsubscribe && cupti.enable_domain)
        *(void **)&cupti.finalize = dlsym(library, "cuptiFinalize");
    say("cupti %u\n", version);
    return NULL;
}

static const char *switch_on(void) {
    if ((last_code = cupti.timestamps(now_ns))) return "CUPTI does not take the host's clock";
    if ((last_code = cupti.register_callbacks(on_request, on_complete))) return "another tool has CUPTI";
    if ((last_code = cupti.enable(KIND_CONCURRENT_KERNEL)))
        return "CUPTI gives no kernel records, another tool may have it";
    return NULL;
}

static int open_file(const char *folder, uint64_t at_ns, const char *ending) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d-%llu.%s", folder, (int)getpid(), (unsigned long long)at_ns, ending);
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

/* Another thread may have held a lock, or made a graph. */
static void after_fork(void) {
    pthread_mutex_init(&state.lock, NULL);
    turn_lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    pthread_rwlock_init(&launching, NULL);
    state.making = state.is_paused = 0;
}

/* Opens the files of this process, once; returns whether they are open. */
static int open_files(void) {
    if (state.text >= 0 && state.pid == getpid()) return 1;
    const char *folder = getenv("PTXBENCH_LAUNCHES");
    if (!folder) return 0;
    if (state.pid == 0) pthread_atfork(NULL, NULL, after_fork);
    uint64_t at_ns = now_ns();
    state.pid = getpid();
    state.is_on = state.has_left = 0;
    state.begin_ns = at_ns;
    state.devices_said = 0;
    state.dropped = 0;
    for (size_t i = 0; i < names.count; i++) free(names.text[i]);
    names.count = 0;
    if (names.slot) memset(names.slot, 0, names.slots * sizeof *names.slot);
    state.bin = open_file(folder, at_ns, "bin");
    state.ranges = open_file(folder, at_ns, "ranges");
    state.text = open_file(folder, at_ns, "txt");
    return state.bin >= 0 && state.text >= 0 && state.ranges >= 0;
}

EXPORTED int InitializeInjection(void) {
    pthread_mutex_lock(&state.lock);
    int ready = open_files();
    pthread_mutex_unlock(&state.lock);
    if (!ready || state.is_on) return 1;
    const char *refused = find_functions(open_cupti());
    if (!refused) refused = switch_on();
    if (refused) {
        say("refused %s (CUPTI code %d)\n", refused, last_code);
        return 1;
    }
    state.is_on = 1;
    atexit(at_end);
    if (on_start) on_start();
    start_limit();
    return 1;
}

/* NVTX. Ranges of a thread lie within each other, by domain; those that are started have a number. */
struct open_range {
    uint64_t start_ns, number;
    uint32_t name;
    const char *domain;
};
static __thread struct open_range nested[MOST_NESTED];
static __thread int depth;
static struct open_range started[MOST_OPEN];
static uint64_t last_number;

static void end_range(const struct open_range *one) {
    struct range range = {one->start_ns, now_ns(), one->name, (uint32_t)(uintptr_t)pthread_self()};
    if (one->name == UINT32_MAX) return;
    pthread_mutex_lock(&state.lock);
    put(state.ranges, &range, sizeof range);
    pthread_mutex_unlock(&state.lock);
}

/* Writes a text of wide characters as UTF-8. */
static void narrow(const wchar_t *from, char *to, size_t size) {
    char *end = to + size - 5;
    for (; from && *from && to < end; from++) {
        uint32_t c = (uint32_t)*from;
        if (c < 0x80) {
            *to++ = (char)c;
        } else if (c < 0x800) {
            *to++ = (char)(0xc0 | c >> 6);
            *to++ = (char)(0x80 | (c & 0x3f));
        } else if (c < 0x10000) {
            *to++ = (char)(0xe0 | c >> 12);
            *to++ = (char)(0x80 | (c >> 6 & 0x3f));
            *to++ = (char)(0x80 | (c & 0x3f));
        } else {
            *to++ = (char)(0xf0 | (c >> 18 & 7));
            *to++ = (char)(0x80 | (c >> 12 & 0x3f));
            *to++ = (char)(0x80 | (c >> 6 & 0x3f));
            *to++ = (char)(0x80 | (c & 0x3f));
        }
    }
    *to = 0;
}

static struct open_range begin_range(const char *domain, const char *text) {
    char whole[MOST_NAME];
    if (domain) snprintf(whole, sizeof whole, "%s: %s", domain, text ? text : "");
    pthread_mutex_lock(&state.lock);
    uint32_t name = open_files() ? number_of(domain ? whole : text) : UINT32_MAX;
    pthread_mutex_unlock(&state.lock);
    return (struct open_range){now_ns(), 0, name, domain};
}

static struct open_range begin_wide(const char *domain, const wchar_t *text) {
    char plain[MOST_NAME];
    narrow(text, plain, sizeof plain);
    return begin_range(domain, plain);
}

static struct open_range begin_event(const char *domain, const struct event *event) {
    if (event && event->message_type == MESSAGE_UNICODE) return begin_wide(domain, event->message);
    int is_text = event && (event->message_type == MESSAGE_ASCII || event->message_type == MESSAGE_REGISTERED);
    return begin_range(domain, is_text ? event->message : NULL);
}

static int push(struct open_range one) {
    if (depth < MOST_NESTED) nested[depth] = one;
    return depth++;
}

static int pop_of(const char *domain) {
    if (depth > MOST_NESTED) return --depth;
    for (int at = depth - 1; at >= 0; at--) {
        if (nested[at].domain != domain) continue;
        end_range(&nested[at]);
        memmove(nested + at, nested + at + 1, (size_t)(depth - at - 1) * sizeof *nested);
        return --depth;
    }
    return -2; /* NVTX_NO_PUSH_POP_TRACKING */
}

static uint64_t start(struct open_range one) {
    pthread_mutex_lock(&state.lock);
    uint64_t number = one.number = ++last_number;
    for (size_t i = 0; i < MOST_OPEN; i++)
        if (!started[i].number) {
            started[i] = one;
            break;
        }
    pthread_mutex_unlock(&state.lock);
    return number;
}

static void end_number(uint64_t number) {
    struct open_range found = {.name = UINT32_MAX};
    pthread_mutex_lock(&state.lock);
    for (size_t i = 0; i < MOST_OPEN && number; i++)
        if (started[i].number == number) {
            found = started[i];
            started[i].number = 0;
            break;
        }
    pthread_mutex_unlock(&state.lock);
    end_range(&found);
}

static uint64_t nvtx_start_event(const struct event *event) { return start(begin_event(NULL, event)); }
static uint64_t nvtx_start_text(const char *text) { return start(begin_range(NULL, text)); }
static uint64_t nvtx_start_wide(const wchar_t *text) { return start(begin_wide(NULL, text)); }
static int nvtx_push_event(const struct event *event) { return push(begin_event(NULL, event)); }
static int nvtx_push_text(const char *text) { return push(begin_range(NULL, text)); }
static int nvtx_push_wide(const wchar_t *text) { return push(begin_wide(NULL, text)); }
static int nvtx_pop(void) { return pop_of(NULL); }
static uint64_t nvtx_domain_start(const char *domain, const struct event *event) {
    return start(begin_event(domain, event));
}
static void nvtx_domain_end(const char *domain, uint64_t number) {
    (void)domain;
    end_number(number);
}
static int nvtx_domain_push(const char *domain, const struct event *event) {
    return push(begin_event(domain, event));
}
static int nvtx_domain_pop(const char *domain) { return pop_of(domain); }
/* A domain and a registered string are their own text. */
static char *nvtx_domain_create(const char *name) { return strdup(name ? name : "(no domain)"); }
static char *nvtx_register(const char *domain, const char *text) {
    (void)domain;
    return strdup(text ? text : "(no name)");
}
static char *nvtx_register_wide(const char *domain, const wchar_t *text) {
    char plain[MOST_NAME];
    (void)domain;
    narrow(text, plain, sizeof plain);
    return strdup(plain);
}
static char *nvtx_domain_create_wide(const wchar_t *name) { return nvtx_register_wide(NULL, name); }

typedef void (*function)(void);
struct export_table {
    size_t struct_size;
    int (*functions)(int, function ***, unsigned *);
};

static void set_functions(const struct export_table *table, int module, const function *own, unsigned count) {
    function **slots = NULL;
    unsigned size = 0;
    if (!table->functions(module, &slots, &size) || !slots) return;
    for (unsigned i = 0; i < count && i < size; i++)
        if (own[i] && slots[i]) *slots[i] = own[i];
}

EXPORTED int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t)) {
    enum { CALLBACKS = 1, MODULE_CORE = 1, MODULE_CORE2 = 5 };
#define F(name) (function)(name)
    static const function core[] = {
        [4] = F(nvtx_start_event), [5] = F(nvtx_start_text), [6] = F(nvtx_start_wide), [7] = F(end_number),
        [8] = F(nvtx_push_event),  [9] = F(nvtx_push_text),  [10] = F(nvtx_push_wide), [11] = F(nvtx_pop)};
    static const function core2[] = {[2] = F(nvtx_domain_start),      [3] = F(nvtx_domain_end),
                                     [4] = F(nvtx_domain_push),       [5] = F(nvtx_domain_pop),
                                     [10] = F(nvtx_register),         [11] = F(nvtx_register_wide),
                                     [12] = F(nvtx_domain_create),    [13] = F(nvtx_domain_create_wide)};
#undef F
    const struct export_table *table = get_table ? get_table(CALLBACKS) : NULL;
    if (!table || table->struct_size < sizeof *table || !getenv("PTXBENCH_LAUNCHES")) return 0;
    set_functions(table, MODULE_CORE, core, sizeof core / sizeof *core);
    set_functions(table, MODULE_CORE2, core2, sizeof core2 / sizeof *core2);
    return 1;
}
