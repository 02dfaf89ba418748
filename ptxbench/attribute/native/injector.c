/* Writes down when each kernel of a process ran on which GPU.
 *
 * The CUDA driver loads this library by CUDA_INJECTION64_PATH and calls InitializeInjection. It asks CUPTI's
 * activity API for kernel records and appends them to two files in the folder PTXBENCH_LAUNCHES:
 *
 *   PID-NS.bin   `struct launch`, one a kernel, as they come
 *   PID-NS.txt   lines: "cupti VERSION", "name ID NAME", "device ORDINAL UUID", "dropped COUNT",
 *                "taken NS" (another tool took CUPTI), "refused WHY", "end NS"
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
};
_Static_assert(offsetof(struct record, start_ns) == 16, "start");
_Static_assert(offsetof(struct record, device) == 40, "deviceId");
_Static_assert(offsetof(struct record, correlation) == 92, "correlationId");
_Static_assert(offsetof(struct record, name) == 104, "name");
_Static_assert(offsetof(struct record, graph_node) == 144, "graphNodeId");

struct launch {
    uint64_t start_ns, end_ns;
    uint32_t name, device, stream, is_in_graph;
};

typedef void (*request_fn)(uint8_t **, size_t *, size_t *);
typedef void (*complete_fn)(void *, uint32_t, uint8_t *, size_t, size_t);
typedef int (*register_fn)(request_fn, complete_fn);

enum { KIND_CONCURRENT_KERNEL = 10, ALIGN = 8, BATCH = 1024, FLUSH_MS = 200 };
enum { LEAST_BYTES = 1 << 12, MOST_BYTES = 1 << 20 };
/* CUPTI_API_VERSION: 14 is CUDA 11.0, the first with this layout; 13.x is 130000 and up. */
enum { OLDEST_API = 14, NEXT_API = 140000 };

static struct {
    register_fn register_callbacks;
    int (*enable)(uint32_t);
    int (*next_record)(uint8_t *, size_t, struct record **);
    int (*dropped)(void *, uint32_t, size_t *);
    int (*flush_all)(uint32_t);
    int (*flush_period)(uint32_t);
    int (*timestamps)(uint64_t (*)(void));
    int (*version)(uint32_t *);
} cupti;

static struct {
    int bin, text, is_on, was_taken;
    pid_t pid;
    pthread_mutex_t lock;
    uint64_t devices_said;
} state = {.bin = -1, .text = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

/* CUptiResult of the last step of starting; 0 where it was not CUPTI that failed. */
static int last_code;

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

static void put(int file, const void *from, size_t bytes) {
    const char *at = from;
    while (bytes) {
        ssize_t done = write(file, at, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return;
        at += done;
        bytes -= (size_t)done;
    }
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char line[512];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    if (length > 0 && state.text >= 0)
        put(state.text, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
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

/* Returns the number of a name, and writes it down the first time; UINT32_MAX without memory. */
static uint32_t number_of(const char *name) {
    if (!name) name = "(no name)";
    if (names.count * 2 >= names.slots && !grow()) return UINT32_MAX;
    size_t at = hash(name) & (names.slots - 1);
    for (; names.slot[at]; at = (at + 1) & (names.slots - 1))
        if (!strcmp(names.text[names.slot[at] - 1], name)) return names.slot[at] - 1;
    char *copy = strdup(name), *line = malloc(strlen(name) + 32);
    if (!copy || !line) {
        free(copy);
        free(line);
        return UINT32_MAX;
    }
    uint32_t number = (uint32_t)names.count++;
    names.text[number] = copy;
    names.slot[at] = number + 1;
    put(state.text, line, (size_t)sprintf(line, "name %u %s\n", number, name));
    free(line);
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

static void on_request(uint8_t **buffer, size_t *size, size_t *most) {
    void *made = NULL;
    size_t bytes = next_bytes();
    *most = 0;
    *size = posix_memalign(&made, ALIGN, bytes) ? 0 : bytes;
    *buffer = *size ? made : NULL;
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    (void)size;
    pthread_mutex_lock(&state.lock);
    struct launch batch[BATCH];
    size_t filled = 0, lost = 0;
    struct record *record = NULL;
    while (valid && buffer && cupti.next_record(buffer, valid, &record) == 0) {
        if (record->kind != KIND_CONCURRENT_KERNEL) continue;
        uint32_t name = number_of(record->name);
        /* A kernel that did not end has no times. */
        if (name == UINT32_MAX || !record->start_ns || record->end_ns < record->start_ns) {
            lost++;
            continue;
        }
        say_device(record->device);
        batch[filled++] = (struct launch){record->start_ns, record->end_ns, name,
                                          record->device,   record->stream, record->graph_node != 0};
        if (filled == BATCH) {
            put(state.bin, batch, sizeof batch);
            filled = 0;
        }
    }
    put(state.bin, batch, filled * sizeof *batch);
    size_t dropped = 0;
    if (cupti.dropped && cupti.dropped(context, stream, &dropped) == 0) lost += dropped;
    if (lost) say("dropped %zu\n", lost);
    pthread_mutex_unlock(&state.lock);
    free(buffer);
}

/* Where this library is preloaded too, another tool's registration comes through here. */
__attribute__((visibility("default"))) int cuptiActivityRegisterCallbacks(request_fn request,
                                                                          complete_fn complete) {
    register_fn next = cupti.register_callbacks;
    if (!next) next = (register_fn)dlsym(RTLD_NEXT, "cuptiActivityRegisterCallbacks");
    if (!next) return 999; /* CUPTI_ERROR_UNKNOWN */
    if (state.is_on && !state.was_taken && getpid() == state.pid) {
        state.was_taken = 1;
        cupti.flush_all(0);
        say("taken %llu\n", (unsigned long long)now_ns());
    }
    return next(request, complete);
}

static void at_end(void) {
    /* A forked child has the handler, but no CUDA. */
    if (!state.is_on || getpid() != state.pid) return;
    if (!state.was_taken) cupti.flush_all(1);
    say("end %llu\n", (unsigned long long)now_ns());
}

static void *open_cupti(void) {
    static const char *const names_of[] = {"libcupti.so.13", "libcupti.so.12"};
    for (int i = 0; i < 2; i++) {
        void *loaded = dlopen(names_of[i], RTLD_LAZY | RTLD_NOLOAD);
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
    say("cupti %u\n", version);
    return NULL;
}

static const char *switch_on(void) {
    if ((last_code = cupti.timestamps(now_ns))) return "CUPTI does not take the host's clock";
    if ((last_code = cupti.register_callbacks(on_request, on_complete))) return "another tool has CUPTI";
    if ((last_code = cupti.enable(KIND_CONCURRENT_KERNEL)))
        return "CUPTI gives no kernel records, another tool may have it";
    cupti.flush_period(FLUSH_MS);
    return NULL;
}

static int open_file(const char *folder, uint64_t at_ns, const char *ending) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d-%llu.%s", folder, (int)getpid(), (unsigned long long)at_ns, ending);
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

__attribute__((visibility("default"))) int InitializeInjection(void) {
    const char *folder = getenv("PTXBENCH_LAUNCHES");
    if (!folder || (state.is_on && getpid() == state.pid)) return 1;
    uint64_t at_ns = now_ns();
    state.bin = open_file(folder, at_ns, "bin");
    state.text = open_file(folder, at_ns, "txt");
    if (state.bin < 0 || state.text < 0) return 1;
    state.pid = getpid();
    const char *refused = find_functions(open_cupti());
    if (!refused) refused = switch_on();
    if (refused) {
        say("refused %s (CUPTI code %d)\n", refused, last_code);
        return 1;
    }
    state.is_on = 1;
    atexit(at_end);
    return 1;
}
