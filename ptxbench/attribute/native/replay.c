/* Launches the kernels of a program again, kind by kind, once its exit code is settled. It is compiled last.
 *
 * CUPTI's driver callbacks show every launch, graph and allocation. Launches of one function and launch shape
 * are a kind; the parameters of its last launches are kept, and those of all kernels of a graph. When the
 * program exits, while its memory is still there, or after so many launches, all memory of the context is saved.
 * Each kind is launched for PTXBENCH_REPLAY's window, with the memory restored before. PID-NS.replay says what
 * ran when, and at the end of the program once more which kinds there are:
 *
 *   begin NS, end NS        the program is over before, and goes on to end behind; the last begin counts
 *   kind K NAME DEVICE CALLS, then grid, block, shared bytes, cluster, is cooperative, is programmatic,
 *                           priority
 *   seen NAME DEVICE COUNT NS, then grid, block, shared bytes: what CUPTI saw of kernels while the program ran
 *   window K BEGIN END TIMES LAUNCHES UNDONE SLEEPS: a graph of so many launches ran so often; -1: sleeping, -2:
 *                           nothing. In it what K changes of what it reads was written back so often (-1: not
 *                           looked at), and one thread slept so often. The last window of K counts
 *   undo K BEGIN END TIMES LAUNCHES 0 0: the same of writing back alone
 *   refused K WHY           K is launched no more; -1 is all of them
 *   saved BYTES, changed BYTES (of it, at the end), stopped WHY
 *
 * Nothing of it changes what the program does: its code, its output and its end are its own. A replay that hangs
 * or crashes is given up, and the program ends as ever, or is ended with its exit code where the GPU holds it up.
 */
#include <regex.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <dirent.h>

enum { MOST_KINDS = 4096, MOST_INSTANCES = 128, MOST_EXECS = 512, MOST_ATTRIBUTES = 8, MOST_PARAMETERS = 1024 };
enum { MOST_NODES = 1024, GRAPH_NS = 2000000, SLEEPS = 128, MOST_SEEN = 1 << 14, GRACE_MS = 10000 };
enum { IDLE = -1, GAPS = -2, UNDOING = -3, EVERY = -1 };
enum { MOST_REGISTERED = 1000, UNDOS = 32, DIGEST_THREADS = 256, PIECE = 1 << 20, MOST_COPIED = 1 << 30 };
enum { GIVEN_UP = 124 }; /* as of timeout */
enum { INVALID_VALUE = 1, INVALID_CONTEXT = 201, FILE_NOT_FOUND = 301, NOT_FOUND = 500 };
enum { NODE_ALLOCATES = 10 };
enum { ASK_TYPE = 2, ASK_IS_MANAGED = 8, ASK_DEVICE = 9, ASK_START = 11, ASK_SIZE = 12, TYPE_HOST = 1 };
enum { COOPERATIVE = 2, CLUSTER = 4, CLUSTER_POLICY = 5, PROGRAMMATIC = 6, PRIORITY = 8, CARVEOUT = 14 };
enum { LAUNCH_END = 0, LAUNCH_BUFFER = 1, LAUNCH_SIZE = 2, CAPTURE_OF_THREAD = 1, STREAM_NON_BLOCKING = 1 };
#define SLOWER 1.02 /* of a launch by itself, at which the limit may hold it down */
#define LIMITING_NS 4e7 /* what lasts longer, the limit may slow down */
#define PAUSE_NS 1500 /* at most, between two launches of a graph */
#define OTHER_ROUND_NS 300 /* by which launches differ from round to round */
#define LATE_NS 20000000
#define ROUNDS 8 /* of the launches of a kind in a window, at least, so that it holds whole ones */
#define LEFT_BYTES ((size_t)512 << 20) /* device memory that is left to others */
#define LOWEST_ADDRESS ((uint64_t)1 << 16)
#define HIGHEST_ADDRESS ((uint64_t)1 << 57)

/* Numbers of cupti_driver_cbid.h, the same since each function is there. */
enum {
    ID_MODULE_UNLOAD = 22, ID_ALLOC = 243, ID_ALLOC_PITCH = 244, ID_FREE = 245, ID_LAUNCH = 307, ID_CTX_DESTROY = 322,
    ID_IPC_OPEN = 329, ID_ALLOC_MANAGED = 371, ID_LAUNCH_PTSZ = 442, ID_COOPERATIVE = 477, ID_COOPERATIVE_PTSZ = 478,
    ID_INSTANTIATE = 513, ID_GRAPH = 514, ID_GRAPH_PTSZ = 515, ID_EXEC_DESTROY = 516, ID_EXEC_KERNEL = 538,
    ID_PRIMARY_RELEASE = 544, ID_PRIMARY_RESET = 545, ID_MAP = 551, ID_UNMAP = 552, ID_EXEC_UPDATE = 561,
    ID_IPC_OPEN_2 = 567, ID_INSTANTIATE_2 = 578, ID_ALLOC_ASYNC = 598, ID_ALLOC_ASYNC_PTSZ = 599, ID_FREE_ASYNC = 600,
    ID_FREE_ASYNC_PTSZ = 601, ID_ALLOC_POOL = 611, ID_ALLOC_POOL_PTSZ = 612, ID_IMPORT_POOL = 616,
    ID_INSTANTIATE_FLAGS = 643, ID_LAUNCH_EX = 652, ID_LAUNCH_EX_PTSZ = 653, ID_INSTANTIATE_PARAMS = 656,
    ID_INSTANTIATE_PARAMS_PTSZ = 657, ID_LIBRARY_UNLOAD = 680, ID_EXEC_KERNEL_2 = 692, ID_EXEC_UPDATE_2 = 696,
    ID_EXEC_NODE = 714
};
static const uint32_t watched[] = {
    ID_MODULE_UNLOAD, ID_ALLOC, ID_ALLOC_PITCH, ID_FREE, ID_LAUNCH, ID_CTX_DESTROY, ID_IPC_OPEN, ID_ALLOC_MANAGED,
    ID_LAUNCH_PTSZ, ID_COOPERATIVE, ID_COOPERATIVE_PTSZ, ID_INSTANTIATE, ID_GRAPH, ID_GRAPH_PTSZ, ID_EXEC_DESTROY,
    ID_EXEC_KERNEL, ID_PRIMARY_RELEASE, ID_PRIMARY_RESET, ID_MAP, ID_UNMAP, ID_EXEC_UPDATE, ID_IPC_OPEN_2,
    ID_INSTANTIATE_2, ID_ALLOC_ASYNC, ID_ALLOC_ASYNC_PTSZ, ID_FREE_ASYNC, ID_FREE_ASYNC_PTSZ, ID_ALLOC_POOL,
    ID_ALLOC_POOL_PTSZ, ID_IMPORT_POOL, ID_INSTANTIATE_FLAGS, ID_LAUNCH_EX, ID_LAUNCH_EX_PTSZ, ID_INSTANTIATE_PARAMS,
    ID_INSTANTIATE_PARAMS_PTSZ, ID_LIBRARY_UNLOAD, ID_EXEC_KERNEL_2, ID_EXEC_UPDATE_2, ID_EXEC_NODE};

/* CUpti_CallbackData. */
struct call {
    int site;
    const char *function;
    const void *parameters;
    const int *result;
    const char *symbol;
    void *context;
};
_Static_assert(offsetof(struct call, context) == 40, "context");

/* CUlaunchAttribute and CUlaunchConfig. A shape is grid, block and bytes of shared memory. */
struct attribute {
    int id, unused;
    union {
        char whole[64];
        int number;
        unsigned dimensions[3];
    } value;
};
_Static_assert(sizeof(struct attribute) == 72, "CUlaunchAttribute");
struct launch_by {
    unsigned shape[7];
    void *stream;
    struct attribute *attributes;
    unsigned count;
};
_Static_assert(offsetof(struct launch_by, count) == 48, "CUlaunchConfig");

/* Parameters of the driver's functions, as generated_cuda_meta.h has them. */
struct launch_call {
    void *function;
    unsigned shape[7];
    void *stream, **parameters, **extra;
};
struct launch_ex_call {
    const struct launch_by *config;
    void *function, **parameters, **extra;
};
/* CUDA_KERNEL_NODE_PARAMS_v2. */
struct node_parameters {
    void *function;
    unsigned shape[7];
    void **parameters, **extra, *kernel, *context;
};
_Static_assert(offsetof(struct node_parameters, kernel) == 56, "kern");
static struct {
    int (*enable)(uint32_t, void *, uint32_t, uint32_t);
    void *subscriber;
} callbacks;

/* The driver's functions; all but the first line must be there. */
#define DRIVER(F)                                                                                            \
    F(cuFuncGetParamInfo, (void *, size_t, size_t *, size_t *))                                              \
    F(cuKernelGetParamInfo, (void *, size_t, size_t *, size_t *))                                            \
    F(cuFuncGetModule, (void **, void *))                                                                    \
    F(cuKernelGetLibrary, (void **, void *))                                                                 \
    F(cuLibraryGetModule, (void **, void *))                                                                 \
    F(cuFuncGetName, (const char **, void *))                                                                \
    F(cuKernelGetName, (const char **, void *))                                                              \
    F(cuGraphGetEdges_v2, (void *, void **, void **, void *, size_t *))                                      \
    F(cuDevicePrimaryCtxGetState, (int, unsigned *, int *))                                                  \
    F(cuLaunchKernelEx, (const struct launch_by *, void *, void **, void **))                                \
    F(cuGraphKernelNodeGetAttribute, (void *, int, void *))                                                  \
    F(cuGraphKernelNodeGetParams_v2, (void *, struct node_parameters *))                                     \
    F(cuGraphChildGraphNodeGetGraph, (void *, void **))                                                      \
    F(cuGraphGetNodes, (void *, void **, size_t *))                                                          \
    F(cuGraphNodeGetType, (void *, int *))                                                                   \
    F(cuCtxSetCurrent, (void *))                                                                             \
    F(cuCtxGetCurrent, (void **))                                                                            \
    F(cuCtxGetDevice, (int *))                                                                               \
    F(cuCtxSynchronize, (void))                                                                              \
    F(cuPointerGetAttribute, (void *, int, uint64_t))                                                        \
    F(cuMemGetInfo_v2, (size_t *, size_t *))                                                                 \
    F(cuMemAlloc_v2, (uint64_t *, size_t))                                                                   \
    F(cuMemFree_v2, (uint64_t))                                                                              \
    F(cuMemcpyDtoDAsync_v2, (uint64_t, uint64_t, size_t, void *))                                            \
    F(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                                                           \
    F(cuMemsetD8Async, (uint64_t, unsigned char, size_t, void *))                                            \
    F(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t))                                                     \
    F(cuModuleLoadData, (void **, const void *))                                                             \
    F(cuModuleGetFunction, (void **, void *, const char *))                                                  \
    F(cuStreamCreate, (void **, unsigned))                                                                   \
    F(cuStreamSynchronize, (void *))                                                                         \
    F(cuStreamIsCapturing, (void *, int *))                                                                  \
    F(cuStreamBeginCapture_v2, (void *, int))                                                                \
    F(cuStreamEndCapture, (void *, void **))                                                                 \
    F(cuGraphInstantiateWithFlags, (void **, void *, uint64_t))                                              \
    F(cuGraphLaunch, (void *, void *))                                                                       \
    F(cuGraphExecDestroy, (void *))                                                                          \
    F(cuGraphDestroy, (void *))
#define MEMBER(name, arguments) int (*name) arguments;
static struct { DRIVER(MEMBER) } cu;
#undef MEMBER

struct function {
    void *handle, *owner;
    struct function *same; /* the one of its name and parameters that was known before, by another handle */
    uint32_t name;
    int is_gone, is_known; /* its code was unloaded; the sizes of its parameters are known */
    size_t bytes, count;
    uint32_t *offset, *size;
};

/* What launches of a kind have in common; no byte of it is without a meaning. */
struct shape {
    struct function *function;
    void *context;
    unsigned of_launch[7], cluster[3];
    int is_cooperative, is_programmatic, priority, device;
};
struct kind {
    struct shape shape;
    struct attribute attributes[MOST_ATTRIBUTES];
    unsigned attribute_count;
    uint64_t calls;  /* launches one by one */
    uint8_t *ring;   /* parameters of the last of them, each of `size` bytes behind the serial that then was */
    size_t size, room;
    const char *refused;
};
/* A graph: the kernels of it in order, each with its parameters. */
struct node {
    uint32_t kind;
    size_t size;
    uint8_t *parameters;
};
struct exec {
    void *handle;
    uint64_t launches, serial; /* that was when it was launched last */
    size_t count;
    struct node *nodes;
    int is_changed, allocates, is_destroyed;
};
enum place { DEVICE, MANAGED, FOREIGN };
struct allocation {
    uint64_t start, size, serial; /* how many there had been when it was made */
    enum place place;
};
struct seen {
    uint32_t name, device, count;
    unsigned of_launch[7];
    uint64_t total_ns;
};
struct saved {
    uint64_t start, size, on_device;
    uint8_t *on_host;
    size_t first; /* of its pieces among all */
};
/* Some memory that a kind changes of what it reads, and its copy. */
struct piece {
    uint64_t start, copy, size;
};

static struct {
    int is_on, is_over, file, device;
    double window_s, limit_s, hang_s;
    uint64_t after, launches; /* of kernels and graphs: from how many on it replays, 0: at the end; so far */
    int in_flight; /* calls of other threads that have begun */
    regex_t waits; /* names of kernels that wait for other GPUs */
    int has_waits;
    pthread_mutex_t lock;
    struct function **functions;
    size_t function_slots, function_count;
    struct kind *kinds;
    uint32_t count, left_out, *slots;
    struct exec execs[MOST_EXECS];
    size_t exec_count;
    struct allocation *live, *ever; /* in order of their addresses */
    size_t live_count, live_room, ever_count, ever_room;
    uint64_t serial; /* allocations that were made so far */
    void *gone[64]; /* contexts that were destroyed */
    size_t gone_count;
    struct seen *seen;
    /* While it replays. */
    void *stream;
    struct saved *saved;
    size_t saved_count, pieces;
    uint64_t digests, *digest[4]; /* on the device; as it was saved, twice later, and at a restoration */
    struct piece *changing;
    size_t changing_count;
    uint64_t sleep_ns; /* how long one thread sleeps */
    volatile uint64_t until_ns; /* when what it does now counts as hanging */
    volatile int is_done, is_stopped, is_crashed, is_shared, status;
    pthread_t thread;
    volatile int kind_now;
} replay = {.file = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
static __thread int within;

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...) {
    char line[512];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    if (length > 0 && replay.file >= 0)
        put(replay.file, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

static uint64_t hash_bytes(const void *from, size_t size) {
    uint64_t value = 14695981039346656037u; /* FNV-1a */
    for (const uint8_t *at = from; size--; at++) value = (value ^ *at) * 1099511628211u;
    return value;
}

/* Allocations. */

/* Returns the first of some ranges that ends behind an address. */
static size_t range_at(const struct allocation *ranges, size_t count, uint64_t address) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].start + ranges[middle].size <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct allocation *find_range(const struct allocation *ranges, size_t count, uint64_t address) {
    size_t at = range_at(ranges, count, address);
    return at < count && ranges[at].start <= address ? ranges + at : NULL;
}

/* Takes out what overlaps a range, and puts it there in its place; ranges that only touch stay apart. */
static void put_range(struct allocation **ranges, size_t *count, size_t *room, struct allocation one) {
    size_t from = range_at(*ranges, *count, one.start), to = from;
    while (to < *count && (*ranges)[to].start < one.start + one.size) to++;
    if (*count == *room && from == to) {
        size_t larger = *room ? 2 * *room : 256;
        struct allocation *made = realloc(*ranges, larger * sizeof *made);
        if (!made) return;
        *ranges = made;
        *room = larger;
    }
    memmove(*ranges + from + 1, *ranges + to, (*count - to) * sizeof **ranges);
    *count += 1 - (to - from);
    (*ranges)[from] = one;
}

static void allocated(uint64_t start, uint64_t size, enum place place) {
    if (!start || !size) return;
    struct allocation one = {start, size, ++replay.serial, place};
    put_range(&replay.live, &replay.live_count, &replay.live_room, one);
    uint64_t end = start + size;
    for (size_t i = range_at(replay.ever, replay.ever_count, start); i < replay.ever_count; i++) {
        const struct allocation *other = replay.ever + i;
        if (other->start >= end) break;
        if (other->start < one.start) one.start = other->start;
        if (other->start + other->size > end) end = other->start + other->size;
    }
    one.size = end - one.start;
    put_range(&replay.ever, &replay.ever_count, &replay.ever_room, one);
}

static void freed(uint64_t start, uint64_t size) {
    size_t from = range_at(replay.live, replay.live_count, start), to = from;
    while (to < replay.live_count && replay.live[to].start < start + (size ? size : 1)) to++;
    memmove(replay.live + from, replay.live + to, (replay.live_count - to) * sizeof *replay.live);
    replay.live_count -= to - from;
}

/* Functions and kinds. */

/* Finds out how large the parameters of a function are. A launch may name a CUkernel in its place. */
static void learn_parameters(struct function *one, void *handle, int is_kernel) {
    uint32_t offset[MOST_PARAMETERS], size[MOST_PARAMETERS];
    int (*ask)(void *, size_t, size_t *, size_t *) = cu.cuFuncGetParamInfo;
    size_t at, bytes, n = 0;
    int code = ask && !is_kernel ? ask(handle, 0, &at, &bytes) : NOT_FOUND, other = NOT_FOUND;
    if (code && cu.cuKernelGetParamInfo) other = (ask = cu.cuKernelGetParamInfo)(handle, 0, &at, &bytes);
    /* Of a function without parameters the first is asked for in vain. */
    one->is_known = !code || !other || code == INVALID_VALUE || other == INVALID_VALUE;
    for (; n < MOST_PARAMETERS && one->is_known && !ask(handle, n, &at, &bytes); n++) {
        offset[n] = (uint32_t)at;
        size[n] = (uint32_t)bytes;
        if (at + bytes > one->bytes) one->bytes = at + bytes;
    }
    one->count = n;
    one->offset = malloc(2 * (n + 1) * sizeof *one->offset);
    if (!one->offset) {
        one->is_known = 0;
        return;
    }
    one->size = one->offset + n;
    memcpy(one->offset, offset, n * sizeof *offset);
    memcpy(one->size, size, n * sizeof *size);
}

static struct function *made_function(void *handle, const char *symbol, int is_kernel) {
    struct function *one = calloc(1, sizeof *one);
    if (!one) return NULL;
    const char *name = symbol;
    if (!name && !(!is_kernel && cu.cuFuncGetName && !cu.cuFuncGetName(&name, handle)) &&
        !(cu.cuKernelGetName && !cu.cuKernelGetName(&name, handle)))
        name = NULL;
    pthread_mutex_lock(&state.lock);
    one->name = number_of(name);
    pthread_mutex_unlock(&state.lock);
    one->handle = handle;
    if (!(!is_kernel && cu.cuFuncGetModule && !cu.cuFuncGetModule(&one->owner, handle)) && cu.cuKernelGetLibrary)
        cu.cuKernelGetLibrary(&one->owner, handle);
    learn_parameters(one, handle, is_kernel);
    return one;
}

/* Returns whether two handles are of one function: the runtime launches a CUfunction, a graph has its CUkernel. */
static int is_same(const struct function *one, const struct function *other) {
    return one->name == other->name && !one->is_gone && one->is_known && other->is_known && one->bytes == other->bytes &&
           one->count == other->count && !memcmp(one->size, other->size, one->count * sizeof *one->size);
}

static void at_end_of_program(int status, void *unused);

/* What libraries do at exit, such as to unload their code, is registered before their first launch: each time
 * that one is launched for the first time this is registered, too, so that it comes before. */
static void register_end(void) {
    static int registered;
    if (registered++ < MOST_REGISTERED) on_exit(at_end_of_program, NULL);
}

static struct function *function_of(void *handle, const char *symbol, int is_kernel) {
    if (2 * replay.function_count >= replay.function_slots) {
        size_t slots = replay.function_slots ? 2 * replay.function_slots : 1024;
        struct function **larger = calloc(slots, sizeof *larger);
        if (!larger) return NULL;
        for (size_t i = 0; i < replay.function_slots; i++) {
            struct function *one = replay.functions[i];
            if (!one) continue;
            size_t at = hash_bytes(&one->handle, sizeof one->handle) & (slots - 1);
            while (larger[at]) at = (at + 1) & (slots - 1);
            larger[at] = one;
        }
        free(replay.functions);
        replay.functions = larger;
        replay.function_slots = slots;
    }
    size_t at = hash_bytes(&handle, sizeof handle) & (replay.function_slots - 1);
    for (; replay.functions[at]; at = (at + 1) & (replay.function_slots - 1))
        if (replay.functions[at]->handle == handle && !replay.functions[at]->is_gone)
            return replay.functions[at]->same;
    struct function *one = made_function(handle, symbol, is_kernel);
    if (!one) return NULL;
    one->same = one;
    for (size_t i = 0; i < replay.function_slots; i++)
        if (replay.functions[i] && is_same(replay.functions[i], one)) one->same = replay.functions[i]->same;
    replay.functions[at] = one;
    replay.function_count++;
    register_end();
    return one->same;
}

static void unloaded(void *owner) {
    for (size_t i = 0; owner && i < replay.function_slots; i++)
        if (replay.functions[i] && replay.functions[i]->owner == owner) replay.functions[i]->is_gone = 1;
}

static struct kind *kind_of(const struct shape *shape) {
    enum { SLOTS = 4 * MOST_KINDS };
    if (!replay.kinds) {
        replay.kinds = calloc(MOST_KINDS, sizeof *replay.kinds);
        replay.slots = calloc(SLOTS, sizeof *replay.slots);
        if (!replay.kinds || !replay.slots) return NULL;
    }
    size_t at = hash_bytes(shape, sizeof *shape) & (SLOTS - 1);
    for (; replay.slots[at]; at = (at + 1) & (SLOTS - 1)) {
        struct kind *one = replay.kinds + replay.slots[at] - 1;
        if (!memcmp(&one->shape, shape, sizeof *shape)) return one;
    }
    if (replay.count == MOST_KINDS) {
        replay.left_out++;
        return NULL;
    }
    replay.slots[at] = ++replay.count;
    struct kind *one = replay.kinds + replay.count - 1;
    one->shape = *shape;
    return one;
}

/* Takes an attribute of a launch; those of events, which are the program's, have no part in it. */
static void take_attribute(struct shape *shape, struct kind *kept, const struct attribute *one) {
    static const int taken[] = {COOPERATIVE, CLUSTER, CLUSTER_POLICY, PROGRAMMATIC, PRIORITY, CARVEOUT, 1, 11};
    int is_taken = 0;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) is_taken |= taken[i] == one->id;
    if (!is_taken || kept->attribute_count == MOST_ATTRIBUTES) return;
    kept->attributes[kept->attribute_count++] = *one;
    if (one->id == COOPERATIVE) shape->is_cooperative = one->value.number != 0;
    if (one->id == PROGRAMMATIC) shape->is_programmatic = one->value.number != 0;
    if (one->id == PRIORITY) shape->priority = one->value.number;
    if (one->id == CLUSTER) memcpy(shape->cluster, one->value.dimensions, sizeof shape->cluster);
}

/* Returns the bytes of the parameters of a launch, NULL where they cannot be read. */
static uint8_t *packed(const struct function *function, void **parameters, void **extra, size_t *size, uint8_t *into) {
    if (parameters && function->is_known) {
        *size = function->bytes;
        memset(into, 0, function->bytes);
        for (size_t i = 0; i < function->count; i++)
            memcpy(into + function->offset[i], parameters[i], function->size[i]);
        return into;
    }
    const void *buffer = NULL;
    *size = 0;
    for (; extra && (uintptr_t)*extra != LAUNCH_END; extra += 2) {
        if ((uintptr_t)extra[0] == LAUNCH_BUFFER) buffer = extra[1];
        if ((uintptr_t)extra[0] == LAUNCH_SIZE) *size = *(size_t *)extra[1];
    }
    if (buffer && *size <= 1 << 15) return memcpy(into, buffer, *size);
    *size = 0;
    return function->is_known && !function->count ? into : NULL;
}

static struct kind *kind_by(
    struct function *function, void *context, const unsigned *of_launch, const struct attribute *attributes,
    unsigned count, int is_cooperative, int is_programmatic
) {
    struct shape shape;
    struct kind kept = {.attribute_count = 0};
    memset(&shape, 0, sizeof shape);
    shape.function = function;
    shape.context = context;
    shape.is_cooperative = is_cooperative;
    shape.is_programmatic = is_programmatic;
    memcpy(shape.of_launch, of_launch, sizeof shape.of_launch);
    for (unsigned i = 0; i < count; i++) take_attribute(&shape, &kept, attributes + i);
    if (cu.cuCtxGetDevice(&shape.device)) shape.device = -1;
    struct kind *kind = kind_of(&shape);
    if (kind) {
        memcpy(kind->attributes, kept.attributes, sizeof kept.attributes);
        kind->attribute_count = kept.attribute_count;
    }
    return kind;
}

static void launched(
    const struct call *call, void *handle, const unsigned *of_launch, const struct attribute *attributes,
    unsigned count, void **parameters, void **extra, int is_cooperative
) {
    static uint8_t bytes[1 << 15];
    struct function *function = function_of(handle, call->symbol, 0);
    if (!function || function->bytes > sizeof bytes) return;
    struct kind *kind = kind_by(function, call->context, of_launch, attributes, count, is_cooperative, 0);
    if (!kind) return;
    size_t size;
    if (!packed(function, parameters, extra, &size, bytes)) {
        kind->refused = function->is_known ? "its parameters cannot be read"
                                           : "the driver does not tell the size of its parameters (CUDA 12.4 does)";
    } else if (!kind->calls || size == kind->size) {
        size_t stored = kind->calls < MOST_INSTANCES ? (size_t)kind->calls : MOST_INSTANCES;
        if (stored == kind->room && kind->room < MOST_INSTANCES) {
            size_t room = kind->room ? 4 * kind->room : 2;
            uint8_t *larger = realloc(kind->ring, room * (size + sizeof replay.serial));
            if (!larger) return;
            kind->ring = larger;
            kind->room = room;
        }
        kind->size = size;
        uint8_t *place = kind->ring + (size_t)(kind->calls % MOST_INSTANCES) * (size + sizeof replay.serial);
        memcpy(place, &replay.serial, sizeof replay.serial);
        memcpy(place + sizeof replay.serial, bytes, size);
    } else {
        kind->refused = "its launches have parameters of several sizes";
    }
    kind->calls++;
}

/* Graphs. */

static void add_nodes(struct exec *exec, void *graph, void *context) {
    static uint8_t bytes[1 << 15];
    size_t count = 0, edges = 0;
    if (cu.cuGraphGetNodes(graph, NULL, &count) || !count) return;
    void **nodes = calloc(count, sizeof *nodes);
    struct node *larger = realloc(exec->nodes, (exec->count + count) * sizeof *larger);
    if (larger) exec->nodes = larger;
    if (!nodes || !larger || cu.cuGraphGetNodes(graph, nodes, &count)) count = 0;
    void **from = NULL;
    uint8_t *ports = NULL;
    if (cu.cuGraphGetEdges_v2 && !cu.cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &edges) && edges) {
        from = calloc(2 * edges, sizeof *from);
        ports = calloc(edges, 8); /* CUgraphEdgeData, whose first byte is the port */
        if (!from || !ports || cu.cuGraphGetEdges_v2(graph, from, from + edges, ports, &edges)) edges = 0;
    }
    for (size_t i = 0; i < count; i++) {
        int type = -1, is_programmatic = 0;
        void *inner = NULL;
        struct node_parameters of;
        memset(&of, 0, sizeof of);
        if (cu.cuGraphNodeGetType(nodes[i], &type)) continue;
        exec->allocates |= type == NODE_ALLOCATES;
        if (type == NODE_GRAPH && !cu.cuGraphChildGraphNodeGetGraph(nodes[i], &inner)) {
            add_nodes(exec, inner, context);
            /* There is room for the others of this graph again. */
            larger = realloc(exec->nodes, (exec->count + count - i) * sizeof *larger);
            if (!larger) break;
            exec->nodes = larger;
        }
        if (type != NODE_KERNEL || cu.cuGraphKernelNodeGetParams_v2(nodes[i], &of)) continue;
        struct function *function = function_of(of.function ? of.function : of.kernel, NULL, !of.function);
        if (!function || function->bytes > sizeof bytes) continue;
        for (size_t e = 0; e < edges; e++) is_programmatic |= from[edges + e] == nodes[i] && ports[8 * e];
        struct attribute attributes[MOST_ATTRIBUTES];
        static const int asked[] = {COOPERATIVE, CLUSTER, CLUSTER_POLICY, PRIORITY, CARVEOUT};
        unsigned found = 0;
        memset(attributes, 0, sizeof attributes);
        for (size_t a = 0; a < sizeof asked / sizeof *asked; a++) {
            struct attribute *one = attributes + found;
            one->id = asked[a];
            if (cu.cuGraphKernelNodeGetAttribute(nodes[i], asked[a], &one->value)) continue;
            if (one->value.number && !(asked[a] == CARVEOUT && one->value.number < 0)) found++;
        }
        if (is_programmatic) attributes[found++] = (struct attribute){.id = PROGRAMMATIC, .value.number = 1};
        struct kind *kind = kind_by(function, context, of.shape, attributes, found, 0, is_programmatic);
        if (!kind) continue;
        size_t size;
        if (!packed(function, of.parameters, of.extra, &size, bytes)) {
            kind->refused = "its parameters cannot be read";
            size = 0;
        }
        struct node *node = exec->nodes + exec->count;
        *node = (struct node){(uint32_t)(kind - replay.kinds), size, malloc(size ? size : 1)};
        if (!node->parameters) continue;
        memcpy(node->parameters, bytes, size);
        exec->count++;
    }
    free(nodes);
    free(from);
    free(ports);
}

static struct exec *exec_of(void *handle) {
    static struct exec *last;
    if (last && last->handle == handle && !last->is_destroyed) return last;
    for (size_t i = replay.exec_count; i--;)
        if (replay.execs[i].handle == handle && !replay.execs[i].is_destroyed) return last = replay.execs + i;
    return NULL;
}

/* Counts the launches of a graph with its kinds, and forgets it. */
static void forget_exec(struct exec *exec) {
    for (size_t i = 0; i < exec->count; i++) {
        struct kind *kind = replay.kinds + exec->nodes[i].kind;
        if (exec->launches && !kind->refused && !kind->calls)
            kind->refused = "more graphs were made than are kept";
        kind->calls += exec->launches;
        free(exec->nodes[i].parameters);
    }
    free(exec->nodes);
    memset(exec, 0, sizeof *exec);
    exec->is_destroyed = 1;
}

static void instantiated(void *handle, void *graph, void *context) {
    struct exec *exec = exec_of(handle);
    if (exec) exec->is_destroyed = 1;
    if (replay.exec_count < MOST_EXECS) {
        exec = replay.execs + replay.exec_count++;
    } else {
        /* The place of the destroyed one that was launched least; of none if all are in use. */
        exec = NULL;
        for (size_t i = 0; i < MOST_EXECS; i++)
            if (replay.execs[i].is_destroyed && (!exec || replay.execs[i].launches < exec->launches))
                exec = replay.execs + i;
        if (!exec) {
            replay.left_out++;
            return;
        }
        forget_exec(exec);
    }
    memset(exec, 0, sizeof *exec);
    exec->handle = handle;
    add_nodes(exec, graph, context);
}

/* A graph that gets other parameters: its kernels as they were until now, and as they are from now on. */
static void updated(void *handle, void *graph, void *context) {
    struct exec *exec = exec_of(handle);
    if (!exec) return;
    exec->is_destroyed = 1;
    instantiated(handle, graph, context);
}

/* What CUPTI saw of the kernels while the program ran. */
static void on_kernel(const struct record *record, uint32_t name) {
    struct seen one = {.name = name, .device = record->device};
    memcpy(one.of_launch, record->grid_and_memory, 6 * sizeof(unsigned));
    memcpy(one.of_launch + 6, record->grid_and_memory + 28, sizeof(unsigned));
    uint64_t key = hash_bytes(one.of_launch, sizeof one.of_launch) ^ ((uint64_t)name << 20) ^ one.device;
    for (size_t n = 0; replay.seen && n < MOST_SEEN; n++) {
        struct seen *slot = replay.seen + ((key + n) & (MOST_SEEN - 1));
        if (!slot->count) *slot = one;
        if (slot->name != name || slot->device != one.device ||
            memcmp(slot->of_launch, one.of_launch, sizeof one.of_launch))
            continue;
        slot->count++;
        slot->total_ns += record->end_ns - record->start_ns;
        return;
    }
}

static void replay_now(int status);

static void context_gone(void *context) {
    if (replay.gone_count < sizeof replay.gone / sizeof *replay.gone) replay.gone[replay.gone_count++] = context;
}

/* The primary context of a device is no more, as far as the driver says. */
static void primary_gone(int device, int is_certain) {
    unsigned flags;
    int is_active = 1;
    if (!is_certain && (!cu.cuDevicePrimaryCtxGetState ||
                        cu.cuDevicePrimaryCtxGetState(device, &flags, &is_active) || is_active))
        return;
    for (uint32_t i = 0; i < replay.count; i++)
        if (replay.kinds[i].shape.device == device) context_gone(replay.kinds[i].shape.context);
}

/* Whether something must be known before it is gone. */
static int ends_something(uint32_t id) {
    return id == ID_FREE || id == ID_FREE_ASYNC || id == ID_FREE_ASYNC_PTSZ || id == ID_UNMAP ||
           id == ID_MODULE_UNLOAD || id == ID_LIBRARY_UNLOAD;
}

static void before_call(uint32_t id, const struct call *call) {
    const uint64_t *words = call->parameters;
    if (id == ID_FREE || id == ID_FREE_ASYNC || id == ID_FREE_ASYNC_PTSZ) freed(words[0], 0);
    if (id == ID_UNMAP) freed(words[0], words[1]);
    if (id == ID_MODULE_UNLOAD) unloaded((void *)words[0]);
    if (id == ID_LIBRARY_UNLOAD) {
        void *module = NULL;
        if (cu.cuLibraryGetModule && !cu.cuLibraryGetModule(&module, (void *)words[0])) unloaded(module);
        unloaded((void *)words[0]);
    }
}

static int is_captured(void *stream, int per_thread) {
    int is = 0;
    return cu.cuStreamIsCapturing(stream || !per_thread ? stream : (void *)2, &is) == 0 && is;
}

static void after_call(uint32_t id, const struct call *call) {
    const uint64_t *words = call->parameters;
    switch (id) {
    case ID_LAUNCH: case ID_LAUNCH_PTSZ: case ID_COOPERATIVE: case ID_COOPERATIVE_PTSZ: {
        const struct launch_call *by = call->parameters;
        int is_cooperative = id == ID_COOPERATIVE || id == ID_COOPERATIVE_PTSZ;
        if (is_captured(by->stream, id == ID_LAUNCH_PTSZ || id == ID_COOPERATIVE_PTSZ)) return;
        launched(call, by->function, by->shape, NULL, 0, by->parameters, is_cooperative ? NULL : by->extra,
                 is_cooperative);
        replay.launches++;
        return;
    }
    case ID_LAUNCH_EX: case ID_LAUNCH_EX_PTSZ: {
        const struct launch_ex_call *by = call->parameters;
        if (is_captured(by->config->stream, id == ID_LAUNCH_EX_PTSZ)) return;
        launched(call, by->function, by->config->shape, by->config->attributes, by->config->count,
                 by->parameters, by->extra, 0);
        replay.launches++;
        return;
    }
    case ID_INSTANTIATE: case ID_INSTANTIATE_2: case ID_INSTANTIATE_FLAGS: case ID_INSTANTIATE_PARAMS:
    case ID_INSTANTIATE_PARAMS_PTSZ:
        instantiated(*(void **)words[0], (void *)words[1], call->context);
        return;
    case ID_EXEC_UPDATE: case ID_EXEC_UPDATE_2:
        updated((void *)words[0], (void *)words[1], call->context);
        return;
    case ID_GRAPH: case ID_GRAPH_PTSZ: {
        struct exec *exec = exec_of((void *)words[0]);
        if (exec && !is_captured((void *)words[1], id == ID_GRAPH_PTSZ)) {
            exec->launches++;
            exec->serial = replay.serial;
            replay.launches++;
        }
        return;
    }
    case ID_EXEC_DESTROY: case ID_EXEC_KERNEL: case ID_EXEC_KERNEL_2: case ID_EXEC_NODE: {
        struct exec *exec = exec_of((void *)words[0]);
        if (exec && id == ID_EXEC_DESTROY) exec->is_destroyed = 1;
        if (exec && id != ID_EXEC_DESTROY) exec->is_changed = 1;
        return;
    }
    case ID_ALLOC: case ID_ALLOC_ASYNC: case ID_ALLOC_ASYNC_PTSZ: case ID_ALLOC_POOL: case ID_ALLOC_POOL_PTSZ:
        allocated(*(uint64_t *)words[0], words[1], DEVICE);
        return;
    case ID_ALLOC_PITCH:
        allocated(*(uint64_t *)words[0], *(size_t *)words[1] * words[3], DEVICE);
        return;
    case ID_ALLOC_MANAGED:
        allocated(*(uint64_t *)words[0], words[1], MANAGED);
        return;
    case ID_MAP:
        allocated(words[0], words[1], DEVICE);
        return;
    case ID_IPC_OPEN: case ID_IPC_OPEN_2: case ID_IMPORT_POOL: {
        uint64_t size = 1;
        cu.cuPointerGetAttribute(&size, ASK_SIZE, *(uint64_t *)words[0]);
        allocated(*(uint64_t *)words[0], size, FOREIGN);
        return;
    }
    case ID_CTX_DESTROY:
        context_gone((void *)words[0]);
        return;
    case ID_PRIMARY_RELEASE: case ID_PRIMARY_RESET:
        primary_gone((int)words[0], id == ID_PRIMARY_RESET);
        return;
    }
}

static void on_call(void *unused, uint32_t domain, uint32_t id, const void *data) {
    const struct call *call = data;
    (void)unused;
    int is_begin = call->site == SITE_ENTER;
    if (is_begin && !replay.after && !ends_something(id)) return;
    if (domain != DOMAIN_DRIVER || within || replay.is_over || getpid() != state.pid) return;
    /* Where it replays while the program goes on, other threads wait. */
    if (replay.after && !is_begin) __atomic_fetch_sub(&replay.in_flight, 1, __ATOMIC_RELAXED);
    if (!is_begin && call->result && *call->result) return;
    within = 1; /* What is called here is not the program's. */
    pthread_mutex_lock(&replay.lock);
    if (is_begin && replay.after) __atomic_fetch_add(&replay.in_flight, 1, __ATOMIC_RELAXED);
    if (is_begin)
        before_call(id, call);
    else
        after_call(id, call);
    if (!is_begin && replay.after && replay.launches >= replay.after && !replay.is_done) replay_now(-1);
    pthread_mutex_unlock(&replay.lock);
    within = 0;
}

/* The replay itself. */

static void *own_module, *own_function[3]; /* sleeps, does nothing, digests memory */

/* What is done from now on counts as hanging after so long. */
static void expect(double seconds) { replay.until_ns = now_ns() + (uint64_t)((seconds + replay.hang_s) * 1e9); }

/* Returns a number of a file of the kernel's, behind a word; 0 where there is none. */
static size_t number_in(const char *path, const char *word) {
    char line[256];
    size_t found = 0;
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(line, sizeof line, file))
        if (!strncmp(line, word, strlen(word))) found = strtoull(line + strlen(word), NULL, 10);
    if (file) fclose(file);
    return found;
}

/* Returns how much memory of the host can be had, a tenth left to others. */
static size_t host_room(void) {
    size_t room = number_in("/proc/meminfo", "MemAvailable:") << 10;
    size_t most = number_in("/sys/fs/cgroup/memory.max", ""), used = number_in("/sys/fs/cgroup/memory.current", "");
    if (most && most < used + room) room = most > used ? most - used : 0;
    return room / 10 * 9;
}

static int by_size(const void *a, const void *b) {
    const struct saved *one = a, *other = b;
    return one->size < other->size ? 1 : one->size > other->size ? -1 : 0;
}

/* Saves the memory of a context, on the device where it has the room, else on the host; returns whether all is. */
static int save_memory(void) {
    size_t room = host_room(), whole = 0;
    qsort(replay.saved, replay.saved_count, sizeof *replay.saved, by_size);
    for (size_t i = 0; i < replay.saved_count; i++) whole += replay.saved[i].size;
    expect((double)whole / 1e9);
    for (size_t i = 0; i < replay.saved_count; i++) {
        struct saved *one = replay.saved + i;
        size_t free_bytes = 0, all = 0;
        if (!cu.cuMemGetInfo_v2(&free_bytes, &all) && free_bytes > LEFT_BYTES && one->size <= free_bytes - LEFT_BYTES &&
            !cu.cuMemAlloc_v2(&one->on_device, one->size)) {
            if (cu.cuMemcpyDtoDAsync_v2(one->on_device, one->start, one->size, replay.stream)) return 0;
            continue;
        }
        one->on_device = 0;
        if (one->size > room) return 0;
        room -= one->size;
        one->on_host = mmap(NULL, one->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (one->on_host == MAP_FAILED) one->on_host = NULL;
        if (!one->on_host || cu.cuMemcpyDtoH_v2(one->on_host, one->start, one->size)) return 0;
    }
    if (cu.cuStreamSynchronize(replay.stream)) return 0;
    tell("saved %zu\n", whole);
    return 1;
}

/* Takes the checksums of all pieces of what is saved; returns whether it could. */
static int take_digest(int which) {
    uint64_t bytes = replay.pieces * sizeof(uint64_t);
    int code = cu.cuMemsetD8Async(replay.digests, 0, bytes, replay.stream);
    for (size_t i = 0; i < replay.saved_count && !code; i++) {
        struct saved *one = replay.saved + i;
        uint64_t words = one->size / sizeof(uint64_t), to = replay.digests + one->first * sizeof(uint64_t);
        void *parameters[] = {&one->start, &words, &to};
        struct launch_by by = {.shape = {(unsigned)((one->size - 1) / PIECE + 1), 1, 1, DIGEST_THREADS, 1, 1, 0}};
        by.stream = replay.stream;
        code = cu.cuLaunchKernelEx(&by, own_function[2], parameters, NULL);
    }
    if (!code) code = cu.cuStreamSynchronize(replay.stream);
    return !code && !cu.cuMemcpyDtoH_v2(replay.digest[which], replay.digests, bytes);
}

static int restore_part(struct saved *one, uint64_t at, uint64_t size) {
    if (one->on_device) return cu.cuMemcpyDtoDAsync_v2(one->start + at, one->on_device + at, size, replay.stream);
    /* What takes long is not the GPU that hangs. */
    replay.until_ns += size;
    return cu.cuMemcpyHtoD_v2(one->start + at, one->on_host + at, size);
}

/* Writes back what is not as it was saved; all of it where that cannot be told. */
static int restore_memory(void) {
    int code = 0, is_known = replay.digests && take_digest(3);
    for (size_t i = 0; i < replay.saved_count && !code; i++) {
        struct saved *one = replay.saved + i;
        uint64_t begin = 0;
        for (uint64_t at = 0, n = one->first; at < one->size && is_known && !code; at += PIECE, n++) {
            if (replay.digest[0][n] != replay.digest[3][n]) continue;
            if (at > begin) code = restore_part(one, begin, at - begin);
            begin = at + PIECE;
        }
        if (begin < one->size && !code) code = restore_part(one, begin, one->size - begin);
        /* Bytes behind the last whole word have no checksum. */
        uint64_t rest = one->size % sizeof(uint64_t);
        if (rest && !code) code = restore_part(one, one->size - rest, rest);
    }
    /* What comes from the host may still be on its way, in another stream. */
    return code ? code : cu.cuCtxSynchronize();
}

static int prepare_digests(void) {
    replay.pieces = 0;
    for (size_t i = 0; i < replay.saved_count; i++) {
        replay.saved[i].first = replay.pieces;
        replay.pieces += (replay.saved[i].size - 1) / PIECE + 1;
    }
    int is_room = replay.pieces && !cu.cuMemAlloc_v2(&replay.digests, replay.pieces * sizeof(uint64_t));
    for (int i = 0; i < 4; i++) {
        free(replay.digest[i]);
        replay.digest[i] = calloc(replay.pieces + 1, sizeof(uint64_t));
        is_room &= replay.digest[i] != NULL;
    }
    replay.changing = calloc(replay.pieces + 1, sizeof *replay.changing);
    if (is_room && replay.changing && take_digest(0)) return 1;
    if (replay.digests) cu.cuMemFree_v2(replay.digests);
    replay.digests = 0;
    return 0;
}

/* Says how much memory is not as it was saved. */
static void tell_changed(void) {
    size_t changed = 0;
    if (!replay.digests || !take_digest(1)) return;
    for (size_t i = 0; i < replay.saved_count; i++)
        for (uint64_t at = 0, n = replay.saved[i].first; at < replay.saved[i].size; at += PIECE, n++)
            if (replay.digest[0][n] != replay.digest[1][n])
                changed += replay.saved[i].size - at < PIECE ? (size_t)(replay.saved[i].size - at) : PIECE;
    tell("changed %zu\n", changed);
}

static void release_memory(void) {
    if (replay.digests) cu.cuMemFree_v2(replay.digests);
    replay.digests = 0;
    free(replay.changing);
    replay.changing = NULL;
    replay.changing_count = 0;
    for (size_t i = 0; i < replay.saved_count; i++) {
        if (replay.saved[i].on_device) cu.cuMemFree_v2(replay.saved[i].on_device);
        if (replay.saved[i].on_host) munmap(replay.saved[i].on_host, replay.saved[i].size);
    }
    free(replay.saved);
    replay.saved = NULL;
    replay.saved_count = 0;
}

static int is_saved(uint64_t address) {
    for (size_t i = 0; i < replay.saved_count; i++)
        if (replay.saved[i].start <= address && address < replay.saved[i].start + replay.saved[i].size) return 1;
    return 0;
}

static void to_be_saved(uint64_t start, uint64_t size) {
    struct saved *larger = realloc(replay.saved, (replay.saved_count + 1) * sizeof *larger);
    if (!larger) return;
    replay.saved = larger;
    replay.saved[replay.saved_count++] = (struct saved){.start = start, .size = size};
}

/* Returns why a launch with some parameters cannot be made again, NULL where it can. */
static const char *objection_to(const uint8_t *bytes, size_t size, uint64_t serial) {
    for (size_t at = 0; at + 8 <= size; at += 8) {
        uint64_t word;
        memcpy(&word, bytes + at, sizeof word);
        if (word < LOWEST_ADDRESS || word >= HIGHEST_ADDRESS) continue;
        const struct allocation *own = find_range(replay.live, replay.live_count, word);
        if (own && own->place == FOREIGN) return "it works on memory of another process";
        if (own && own->place == MANAGED) return "it works on managed memory, which cannot be saved and restored";
        unsigned type = 0, is_managed = 0;
        int device = replay.device;
        uint64_t start = 0, length = 0;
        if (own ? own->serial > serial : find_range(replay.ever, replay.ever_count, word) != NULL)
            return "its memory was freed before the program ended";
        if (cu.cuPointerGetAttribute(&type, ASK_TYPE, word)) continue;
        if (!cu.cuPointerGetAttribute(&is_managed, ASK_IS_MANAGED, word) && is_managed)
            return "it works on managed memory, which cannot be saved and restored";
        if (type == TYPE_HOST) return "it works on the host's memory, by which it may wait for the program";
        if (!cu.cuPointerGetAttribute(&device, ASK_DEVICE, word) && device != replay.device)
            return "it works on memory of another GPU";
        if (!own && !is_saved(word) && !cu.cuPointerGetAttribute(&start, ASK_START, word) &&
            !cu.cuPointerGetAttribute(&length, ASK_SIZE, word))
            to_be_saved(start, length);
    }
    return NULL;
}

/* The launches of a kind that are made again. */
struct instances {
    struct kind *kind;
    const uint8_t *parameters[MOST_NODES];
    size_t size[MOST_NODES], count;
};

/* Returns how many launches of a kind a graph has made. */
static uint64_t uses_of(const struct exec *exec, uint32_t kind) {
    uint64_t nodes = 0;
    for (size_t i = 0; i < exec->count && exec->launches; i++) nodes += exec->nodes[i].kind == kind;
    return nodes * exec->launches;
}

static uint64_t calls_of(uint32_t kind) {
    uint64_t calls = replay.kinds[kind].calls;
    for (size_t i = 0; i < replay.exec_count; i++) calls += uses_of(replay.execs + i, kind);
    return calls;
}

static void add_instance(
    struct instances *to, const uint8_t *parameters, size_t size, uint64_t serial, const char **why
) {
    const char *objection = objection_to(parameters, size, serial);
    if (objection || to->count == MOST_NODES) {
        if (objection) *why = objection;
        return;
    }
    to->parameters[to->count] = parameters;
    to->size[to->count++] = size;
}

/* Finds the launches of a kind: those of the graph that made most of them, or the last that were made one by
 * one. Returns why there is none, else NULL. */
static const char *find_instances(uint32_t number, struct instances *to) {
    struct kind *kind = replay.kinds + number;
    struct exec *most = NULL;
    uint64_t most_uses = 0;
    const char *why = "it was not launched", *changed = NULL;
    for (size_t i = 0; i < replay.exec_count; i++) {
        struct exec *exec = replay.execs + i;
        uint64_t uses = uses_of(exec, number);
        if (uses && exec->is_changed) changed = "its graph got other parameters after it was made";
        if (uses && exec->allocates) changed = "its graph allocates its memory";
        if (uses <= most_uses || exec->is_changed || exec->allocates) continue;
        most_uses = uses;
        most = exec;
    }
    to->kind = kind;
    to->count = 0;
    if (kind->refused) return kind->refused;
    if (kind->shape.is_cooperative) return "its blocks wait for each other (cooperative launch)";
    if (replay.has_waits && kind->shape.function->name < names.count &&
        !regexec(&replay.waits, names.text[kind->shape.function->name], 0, NULL, 0))
        return "it may wait for another GPU";
    if (kind->shape.function->is_gone) return "its code was unloaded before the program ended";
    if (most && most_uses >= kind->calls) {
        for (size_t i = 0; i < most->count; i++)
            if (most->nodes[i].kind == number)
                add_instance(to, most->nodes[i].parameters, most->nodes[i].size, most->serial, &why);
    } else {
        size_t stored = kind->calls < MOST_INSTANCES ? (size_t)kind->calls : MOST_INSTANCES;
        if (!stored && changed) return changed;
        size_t first = kind->calls < MOST_INSTANCES ? 0 : (size_t)(kind->calls % MOST_INSTANCES);
        for (size_t i = 0; i < stored; i++) {
            uint64_t serial;
            const uint8_t *place = kind->ring + (first + i) % MOST_INSTANCES * (kind->size + sizeof serial);
            memcpy(&serial, place, sizeof serial);
            add_instance(to, place + sizeof serial, kind->size, serial, &why);
        }
    }
    return to->count ? NULL : why;
}

/* Keeps some launches of a kind, from all over the program: the first may be unlike the others. */
static void spread(struct instances *of, size_t most) {
    for (size_t i = 0; i < most && most < of->count; i++) {
        size_t which = (2 * i + 1) * of->count / (2 * most);
        of->parameters[i] = of->parameters[which];
        of->size[i] = of->size[which];
    }
    if (most < of->count) of->count = most;
}

/* Puts a launch into the stream. */
static int launch_one(const struct instances *of, size_t which) {
    struct function *function = of->kind->shape.function;
    void *pointers[MOST_PARAMETERS];
    size_t size = of->size[which];
    const uint8_t *bytes = of->parameters[which];
    void *extra[] = {(void *)LAUNCH_BUFFER, (void *)bytes, (void *)LAUNCH_SIZE, &size, (void *)LAUNCH_END};
    int is_by_pointers = function->is_known && size == function->bytes;
    for (size_t i = 0; is_by_pointers && i < function->count; i++)
        pointers[i] = (void *)(bytes + function->offset[i]);
    struct launch_by by = {.stream = replay.stream, .count = of->kind->attribute_count};
    by.attributes = of->kind->attributes;
    memcpy(by.shape, of->kind->shape.of_launch, sizeof by.shape);
    return cu.cuLaunchKernelEx(&by, function->handle, is_by_pointers ? pointers : NULL, is_by_pointers ? NULL : extra);
}


static int launch_own(int which) {
    struct launch_by by = {.shape = {1, 1, 1, 1, 1, 1, 0}, .stream = replay.stream};
    return cu.cuLaunchKernelEx(&by, own_function[which], NULL, NULL);
}

/* Writes back what a kind changes of what it reads. */
static int undo(void) {
    int code = 0;
    for (size_t i = 0; i < replay.changing_count && !code; i++) {
        struct piece *one = replay.changing + i;
        code = cu.cuMemcpyDtoDAsync_v2(one->start, one->copy, one->size, replay.stream);
    }
    return code;
}

/* What a graph is made of: the launches of a kind in the order of the program, all of them several times; or, by a
 * number in their place, writing back or a kernel of this library's. */
struct plan {
    const struct instances *of;
    int number;
    size_t count, copies, every; /* before each such launch what the kind changes is written back; 0: never */
    double sleeps;               /* behind each launch */
};

static size_t launches_in(const struct plan *plan) { return plan->count * plan->copies; }

static size_t undos_in(const struct plan *plan) {
    return plan->every ? plan->copies * ((plan->count - 1) / plan->every + 1) : 0;
}

static size_t sleeps_in(const struct plan *plan) { return (size_t)((double)launches_in(plan) * plan->sleeps + 1e-6); }

/* Returns how often a graph of one copy can be in one that does not grow too large. */
static size_t most_copies(const struct plan *plan) {
    struct plan one = *plan;
    one.copies = 1;
    size_t nodes = one.number == UNDOING ? one.count * replay.changing_count
                                         : one.count + undos_in(&one) * replay.changing_count + sleeps_in(&one);
    return nodes < MOST_NODES ? MOST_NODES / nodes : 1;
}

static int make_graph(const struct plan *plan, void **exec) {
    void *graph = NULL;
    size_t slept = 0, made = 0;
    int code = cu.cuStreamBeginCapture_v2(replay.stream, CAPTURE_OF_THREAD);
    if (code) return code;
    for (size_t copy = 0; copy < plan->copies; copy++)
        for (size_t i = 0; i < plan->count && !code; i++) {
            if (plan->every && i % plan->every == 0) code = undo();
            if (code) break;
            code = plan->of ? launch_one(plan->of, i) : plan->number == UNDOING ? undo() : launch_own(plan->number == GAPS);
            made++;
            for (; slept < (size_t)((double)made * plan->sleeps + 1e-6) && !code; slept++) code = launch_own(0);
        }
    int ended = cu.cuStreamEndCapture(replay.stream, &graph);
    if (!code) code = ended;
    if (!code) code = cu.cuGraphInstantiateWithFlags(exec, graph, 0);
    if (graph) cu.cuGraphDestroy(graph);
    return code;
}

/* Launches a graph so often; returns the time that it took, or the code of an error. */
static int timed_launches(void *exec, uint64_t times, uint64_t *begin_ns, uint64_t *end_ns) {
    int code = cu.cuStreamSynchronize(replay.stream);
    *begin_ns = now_ns();
    for (uint64_t i = 0; i < times && !code && !replay.is_stopped; i++) code = cu.cuGraphLaunch(exec, replay.stream);
    if (!code) code = cu.cuStreamSynchronize(replay.stream);
    *end_ns = now_ns();
    return code;
}

/* Adds what differs between two digests to the memory that is written back; returns whether it can be. */
static int add_changing(int before, int after) {
    for (size_t i = 0; i < replay.saved_count; i++) {
        const struct saved *one = replay.saved + i;
        struct piece *last = NULL;
        for (uint64_t at = 0, n = one->first; at < one->size; at += PIECE, n++) {
            if (replay.digest[before][n] == replay.digest[after][n]) continue;
            uint64_t size = one->size - at < PIECE ? one->size - at : PIECE;
            if (!one->on_device) return 0;
            if (last && last->start + last->size == one->start + at && last->size < MOST_COPIED) {
                last->size += size;
                continue;
            }
            last = replay.changing + replay.changing_count++;
            *last = (struct piece){one->start + at, one->on_device + at, size};
        }
    }
    return 1;
}

/* Launches a graph and takes the checksums; returns whether it could. */
static int ran_to_digest(void *exec, int which) {
    uint64_t begin, end;
    return !timed_launches(exec, 1, &begin, &end) && take_digest(which);
}

/* Finds the memory that launches change when they are made again: they read what they write. Where the first of
 * them does, that is all that the round of them changes; else it is what a second round changes. Returns whether
 * there is room to write it back. */
static int find_changing(void *first, void *round) {
    replay.changing_count = 0;
    if (!replay.digests || restore_memory() || !ran_to_digest(first, 1) || !ran_to_digest(first, 2)) return 0;
    int is_in_place = memcmp(replay.digest[1], replay.digest[2], replay.pieces * sizeof(uint64_t)) != 0;
    if (restore_memory() || !ran_to_digest(round, 1)) return 0;
    if (!is_in_place && !ran_to_digest(round, 2)) return 0;
    if (is_in_place ? add_changing(0, 1) : add_changing(1, 2)) return 1;
    replay.changing_count = 0;
    return 0;
}

static char told_window[160];

/* Launches a graph for a window, and writes down when; `again` is about how long it takes, ns, and becomes how long
 * it took. */
static int run_window(const char *word, int number, const struct plan *plan, int undone, void *exec, uint64_t *again) {
    uint64_t begin, end;
    for (int i = 0; i < 2 && !replay.is_stopped; i++) {
        uint64_t times = (uint64_t)(replay.window_s * 1e9 / (double)(*again ? *again : 1)) + 1;
        if (times > 250000 * replay.window_s) times = (uint64_t)(250000 * replay.window_s) + 1;
        expect(20 * replay.window_s + 20e-9 * (double)*again);
        int code = timed_launches(exec, times, &begin, &end);
        if (code || replay.is_stopped) return code;
        *again = (end - begin) / times;
        if ((double)(end - begin) < 0.7e9 * replay.window_s && !i) continue;
        snprintf(told_window, sizeof told_window, "%s %d %llu %llu %llu %zu %d %zu\n", word, number,
                 (unsigned long long)begin, (unsigned long long)end, (unsigned long long)times, launches_in(plan),
                 undone, sleeps_in(plan));
        tell("%s", told_window);
        break;
    }
    return 0;
}

/* Makes a graph that lasts a while, and finds how long it takes when it is launched again, ns. */
static int timed_graph(struct plan *plan, void **exec, uint64_t *again) {
    uint64_t begin, end;
    int code = make_graph(plan, exec);
    /* What the first launch of a graph takes is not the kernels' time. */
    for (int i = 0; i < 3 && !code; i++) {
        code = timed_launches(*exec, 1, &begin, &end);
        if (!code) *again = end - begin;
        if (!code && *again >= 1e9 * replay.window_s / 8) break;
    }
    size_t wanted = *again ? GRAPH_NS / *again + 1 : 1, most = most_copies(plan);
    if (wanted > most) wanted = most;
    if (code || plan->copies > 1 || wanted <= 1) return code;
    cu.cuGraphExecDestroy(*exec);
    *exec = NULL;
    plan->copies = wanted;
    return timed_graph(plan, exec, again);
}

/* Measures what writing back takes, and returns how long once takes, ns. */
static int run_undo(int number, uint64_t *undo_ns) {
    void *exec = NULL;
    uint64_t again = 0;
    struct plan plan = {.number = UNDOING, .count = MOST_NODES / replay.changing_count, .copies = 1};
    if (plan.count > UNDOS) plan.count = UNDOS;
    int code = timed_graph(&plan, &exec, &again);
    if (!code) code = run_window("undo", number, &plan, 0, exec, &again);
    if (exec) cu.cuGraphExecDestroy(exec);
    *undo_ns = again / launches_in(&plan) + 1;
    return code;
}

/* Sees whether a kind changes what it reads, and measures what writing that back takes. Returns a CUDA error, or 0;
 * `undo_ns` is how long it takes, 0 for never, and `undone` -1 where it is not known. */
static int look_at(int number, struct plan plan, uint64_t *undo_ns, int *undone) {
    void *round = NULL, *first = NULL;
    struct plan one = plan;
    one.count = 1;
    int code = make_graph(&plan, &round);
    if (!code) code = make_graph(&one, &first);
    if (!code && !find_changing(first, round)) *undone = -1;
    if (first) cu.cuGraphExecDestroy(first);
    if (round) cu.cuGraphExecDestroy(round);
    if (replay.changing_count > MOST_NODES) {
        /* In so many places that writing back would be most of what runs. */
        replay.changing_count = 0;
        *undone = -1;
    }
    if (!code) code = cu.cuStreamSynchronize(replay.stream);
    return !code && replay.changing_count ? run_undo(number, undo_ns) : code;
}

/* Returns how long a launch takes before the power limit can slow it down, ns: in a round that is short enough, or
 * else in the program. */
static double unlimited_ns(struct plan plan, double round_ns, double launch_s) {
    double launch_ns = round_ns / (double)launches_in(&plan);
    void *exec = NULL;
    uint64_t begin, end;
    if (round_ns > LIMITING_NS && launch_ns < LIMITING_NS / 2) {
        plan.copies = 1;
        plan.every = 0;
        if (plan.count > (size_t)(LIMITING_NS / 2 / launch_ns)) plan.count = (size_t)(LIMITING_NS / 2 / launch_ns);
        int code = make_graph(&plan, &exec);
        for (int i = 0; i < 2 && !code; i++) code = timed_launches(exec, 1, &begin, &end);
        if (!code) round_ns = (double)(end - begin);
        if (exec) cu.cuGraphExecDestroy(exec);
        launch_ns = round_ns / (double)plan.count;
    }
    int is_known = round_ns <= LIMITING_NS && launch_ns > 1e9 * launch_s;
    /* What the program's launches took has no pause behind it. */
    return is_known ? launch_ns + OTHER_ROUND_NS : 1e9 * launch_s + PAUSE_NS;
}

/* Returns how long a graph takes now, ns: behind a window, the limit holds down what it did not at first. */
static uint64_t late_ns(void *exec, uint64_t again) {
    uint64_t begin, end, times = again < LATE_NS ? LATE_NS / (again ? again : 1) : 1;
    int code = timed_launches(exec, times, &begin, &end);
    return code || (end - begin) / times < again ? again : (end - begin) / times;
}

/* Lets a kind, or a kernel of this library's, run for a window.
 *
 * What alone meets the power limit takes longer than in the program, as its clock falls. Then one thread sleeps
 * between the launches, for a larger share of the time until they do not. */
static int run_kind(int number, const struct instances *of, size_t count, double launch_s) {
    static const double shares[] = {0.2, 0.35, 0.5, 0.65};
    enum { SHARES = sizeof shares / sizeof *shares };
    void *exec = NULL;
    int undone = 0;
    uint64_t again = 0, undo_ns = 0;
    struct plan plan = {.of = of, .number = number, .count = count, .copies = 1};
    expect(60 * launch_s * (double)count);
    replay.changing_count = 0;
    int code = of ? look_at(number, plan, &undo_ns, &undone) : 0;
    /* Before each launch where that is short, as of a counter; else before each round of them. */
    int is_short = (double)undo_ns <= 1e9 * launch_s && count * replay.changing_count <= MOST_NODES;
    if (undo_ns) plan.every = is_short ? 1 : count;
    if (!code) code = restore_memory();
    expect(60 * (launch_s + 1e-9 * (double)undo_ns) * (double)count);
    if (!code) code = timed_graph(&plan, &exec, &again);
    double most_ns = 0;
    char alone[sizeof told_window] = "";
    for (int i = 0; !code && !replay.is_stopped; i++) {
        double launches = (double)launches_in(&plan), beside_ns = (double)(undos_in(&plan) * undo_ns);
        if (!i) most_ns = unlimited_ns(plan, (double)again - beside_ns, launch_s);
        code = restore_memory();
        if (undo_ns) undone = (int)undos_in(&plan);
        if (!code) code = run_window("window", number, &plan, undone, exec, &again);
        beside_ns += (double)(sleeps_in(&plan) * replay.sleep_ns);
        if (!code && of) again = late_ns(exec, again);
        double launch_ns = ((double)again - beside_ns) / launches;
        if (number == IDLE) replay.sleep_ns = (uint64_t)launch_ns;
        if (!i) memcpy(alone, told_window, sizeof alone);
        int is_slow = of && launch_s > 0 && launch_ns > SLOWER * most_ns;
        if (code || !is_slow || !replay.sleep_ns) break;
        if (i == SHARES) {
            /* It is not the limit: what ran without idle time counts. */
            tell("%s", alone);
            break;
        }
        plan.sleeps = shares[i] / (1 - shares[i]) * most_ns / (double)replay.sleep_ns;
        size_t most = most_copies(&plan);
        if (plan.copies > most) plan.copies = most;
        cu.cuGraphExecDestroy(exec);
        exec = NULL;
        code = make_graph(&plan, &exec);
        uint64_t begin = 0, end = 0;
        for (int n = 0; n < 2 && !code; n++) code = timed_launches(exec, 1, &begin, &end);
        again = end - begin;
    }
    if (exec) cu.cuGraphExecDestroy(exec);
    return code;
}

/* Loads the kernels of this library's own: what sleeps, and what does nothing. */
static int load_own(void) {
    char path[4096], text[4096];
    const char *folder = getenv("PTXBENCH_LAUNCHES");
    snprintf(path, sizeof path, "%s/own.ptx", folder ? folder : "");
    FILE *file = fopen(path, "r");
    if (!file) return FILE_NOT_FOUND;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    int code = cu.cuModuleLoadData(&own_module, text);
    static const char *const own[] = {"ptxbench_sleep", "ptxbench_nothing", "ptxbench_digest"};
    for (int i = 0; i < 3 && !code; i++) code = cu.cuModuleGetFunction(own_function + i, own_module, own[i]);
    return code;
}

static const struct seen *seen_of(const struct kind *kind) {
    for (size_t i = 0; replay.seen && i < MOST_SEEN; i++) {
        const struct seen *one = replay.seen + i;
        if (one->count && one->name == kind->shape.function->name && (int)one->device == kind->shape.device &&
            !memcmp(one->of_launch, kind->shape.of_launch, sizeof one->of_launch))
            return one;
    }
    return NULL;
}

/* A kind, and its share of the time that the program's kernels took. */
struct turn {
    uint32_t kind;
    double time_s, launch_s;
};
static int by_time(const void *a, const void *b) {
    double one = ((const struct turn *)a)->time_s, other = ((const struct turn *)b)->time_s;
    return one < other ? 1 : one > other ? -1 : 0;
}

static const char *meaning_of(int code) {
    if (code == 700) return "a kernel uses memory that is not there";
    if (code == 710) return "an assertion of a kernel fails";
    return code == 719 ? "a kernel fails" : "see cuda.h";
}

/* Replays what ran in one context; returns a CUDA error that ends all of it, 0 for none. */
static int replay_context(void *context, struct turn *turns, uint32_t count, uint64_t end_ns) {
    static struct instances of;
    if (cu.cuCtxSetCurrent(context) || cu.cuCtxGetDevice(&replay.device)) return INVALID_CONTEXT;
    expect(0);
    int code = cu.cuCtxSynchronize();
    if (!code) code = cu.cuStreamCreate(&replay.stream, STREAM_NON_BLOCKING);
    if (!code) code = load_own();
    if (code) return code;
    for (size_t i = 0; i < replay.live_count; i++) {
        const struct allocation *one = replay.live + i;
        int device = -1;
        if (one->place == DEVICE && !cu.cuPointerGetAttribute(&device, ASK_DEVICE, one->start) &&
            device == replay.device)
            to_be_saved(one->start, one->size);
    }
    /* Before it is saved, all of it must be known. */
    for (uint32_t i = 0; i < count; i++) {
        const char *why = find_instances(turns[i].kind, &of);
        if (!why) continue;
        tell("refused %u %s\n", turns[i].kind, why);
        turns[i].time_s = -1;
    }
    if (!save_memory()) {
        release_memory();
        tell("refused %d the memory of the program cannot be saved whole: neither the GPU nor the host has the room\n",
             EVERY);
        return 0;
    }
    if (!prepare_digests() && replay.saved_count) tell("stopped it cannot be told whether memory changes\n");
    if (!replay.is_stopped) code = run_kind(IDLE, NULL, SLEEPS, 20e-6);
    if (!code && !replay.is_stopped) code = run_kind(GAPS, NULL, MOST_NODES, 2e-6);
    for (uint32_t i = 0; i < count && !code && !replay.is_stopped; i++) {
        if (turns[i].time_s < 0) continue;
        if (now_ns() > end_ns) {
            tell("stopped the time for it was over\n");
            break;
        }
        find_instances(turns[i].kind, &of);
        size_t most = turns[i].launch_s > 0 ? (size_t)(replay.window_s / ROUNDS / turns[i].launch_s) + 1 : of.count;
        replay.kind_now = (int)turns[i].kind;
        code = restore_memory();
        spread(&of, most);
        if (!code) code = run_kind((int)turns[i].kind, &of, of.count, turns[i].launch_s);
        if (!code) continue;
        tell("refused %u its launches end in CUDA error %d when they are made again: %s\n", turns[i].kind, code,
             meaning_of(code));
        code = cu.cuCtxSynchronize();
    }
    replay.kind_now = -1;
    if (!code) code = restore_memory();
    if (!code) tell_changed();
    if (!code) release_memory();
    return code;
}

static void tell_kind(uint32_t number) {
    const struct shape *shape = &replay.kinds[number].shape;
    const unsigned *by = shape->of_launch, *cluster = shape->cluster;
    tell("kind %u %u %d %llu %u %u %u %u %u %u %u %u %u %u %d %d %d\n", number, shape->function->name, shape->device,
         (unsigned long long)calls_of(number), by[0], by[1], by[2], by[3], by[4], by[5], by[6], cluster[0],
         cluster[1], cluster[2], shape->is_cooperative, shape->is_programmatic, shape->priority);
}

static int is_gone(void *context) {
    for (size_t i = 0; i < replay.gone_count; i++)
        if (replay.gone[i] == context) return 1;
    return 0;
}

/* Says what CUPTI saw of the kernels. */
static void tell_seen(void) {
    for (size_t i = 0; replay.seen && i < MOST_SEEN; i++) {
        const struct seen *one = replay.seen + i;
        const unsigned *by = one->of_launch;
        if (one->count)
            tell("seen %u %u %u %llu %u %u %u %u %u %u %u\n", one->name, one->device, one->count,
                 (unsigned long long)one->total_ns, by[0], by[1], by[2], by[3], by[4], by[5], by[6]);
    }
}

/* Replays all kinds, by context, those that took the most time first. */
static void *replay_all(void *unused) {
    (void)unused;
    within = 1;
    /* What the program launched comes to its end first. */
    for (uint32_t i = 0; i < replay.count; i++) {
        void *context = replay.kinds[i].shape.context;
        if (i && replay.kinds[i - 1].shape.context == context) continue;
        if (!is_gone(context) && !cu.cuCtxSetCurrent(context)) cu.cuCtxSynchronize();
    }
    /* Meanwhile nothing is traced: it would slow the replay down. */
    state.is_replaying = 1;
    cupti.flush_all(1);
    cupti.disable(KIND_CONCURRENT_KERNEL);
    if (!replay.after) cupti.unsubscribe(callbacks.subscriber);
    tell("begin %llu\n", (unsigned long long)now_ns());
    tell_seen();
    struct turn *turns = calloc(replay.count + 1, sizeof *turns);
    uint64_t end_ns = now_ns() + (uint64_t)(replay.limit_s * 1e9);
    for (uint32_t i = 0; turns && i < replay.count; i++) {
        void *context = replay.kinds[i].shape.context;
        uint32_t count = 0, is_first = 1;
        for (uint32_t j = 0; j < i; j++) is_first &= replay.kinds[j].shape.context != context;
        if (!is_first) continue;
        for (uint32_t j = i; j < replay.count; j++) {
            if (replay.kinds[j].shape.context != context) continue;
            const struct seen *seen = seen_of(replay.kinds + j);
            double launch_s = seen ? 1e-9 * (double)seen->total_ns / seen->count : 0;
            uint64_t calls = calls_of(j);
            if (!calls) continue;
            turns[count++] = (struct turn){j, launch_s * (double)calls, launch_s};
            tell_kind(j);
        }
        qsort(turns, count, sizeof *turns, by_time);
        int code = 0;
        if (replay.is_shared)
            tell("refused %d another process of the program was using the GPU\n", EVERY);
        else if (is_gone(context))
            tell("refused %d the program destroyed its context before it ended\n", EVERY);
        else
            code = replay_context(context, turns, count, end_ns);
        if (code) tell("stopped CUDA error %d ended its context: %s\n", code, meaning_of(code));
    }
    if (replay.is_stopped) tell("stopped by a signal\n");
    free(turns);
    replay.is_done = 1;
    return NULL;
}

/* Where a replay crashes, its thread stays where it is, and the program goes on to end. */
static void on_crash(int number) {
    if (!pthread_equal(pthread_self(), replay.thread)) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    replay.is_crashed = number;
    for (;;) pause();
}

static void on_stop(int number) { replay.is_stopped = number; }

/* What hangs on the GPU may hold up the program's own end, too. */
static void *end_for_certain(void *unused) {
    (void)unused;
    struct timespec grace = {GRACE_MS / 1000, 0};
    nanosleep(&grace, NULL);
    _exit(replay.status);
}

/* Returns whether a file of a process says that it uses one of some GPUs, and not that it has ended. */
static int uses_any(const char *path, const char *devices) {
    char line[1 << 14];
    FILE *file = fopen(path, "r");
    int ended = 0, uses = 0;
    while (file && fgets(line, sizeof line, file)) {
        ended |= !strncmp(line, "end ", 4);
        const char *uuid = strncmp(line, "device ", 7) ? NULL : strstr(line, "GPU-");
        uses |= uuid && strstr(devices, uuid) != NULL;
    }
    if (file) fclose(file);
    return uses && !ended;
}

/* Returns whether another process of the program, that has not ended, uses a GPU that this one used. */
static int is_shared(void) {
    const char *folder = getenv("PTXBENCH_LAUNCHES");
    char path[4096], line[1 << 14], devices[1 << 12] = "";
    snprintf(path, sizeof path, "%s/%d-%llu.txt", folder, (int)state.pid, (unsigned long long)state.begin_ns);
    FILE *own = fopen(path, "r");
    while (own && fgets(line, sizeof line, own))
        if (!strncmp(line, "device ", 7) && strlen(devices) + strlen(line) < sizeof devices) strcat(devices, line);
    if (own) fclose(own);
    DIR *files = opendir(folder);
    int found = 0;
    for (struct dirent *entry; files && (entry = readdir(files));) {
        size_t length = strlen(entry->d_name);
        int pid = atoi(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 4, ".txt") || pid == state.pid || kill(pid, 0)) continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path)
            found |= uses_any(path, devices);
    }
    if (files) closedir(files);
    return found;
}

/* Replays in a thread of its own, and waits for it, as long as it goes on. */
static void run_replay(int status) {
    pthread_t guard;
    int is_hanging = 0;
    expect(0);
    if (pthread_create(&replay.thread, NULL, replay_all, NULL)) return;
    while (!replay.is_done && !replay.is_crashed && !is_hanging) {
        struct timespec look = {0, 2000000};
        nanosleep(&look, NULL);
        is_hanging = now_ns() > replay.until_ns;
    }
    if (replay.is_done) {
        pthread_join(replay.thread, NULL);
        return;
    }
    const char *why = is_hanging ? "it does not end when it is launched again" : "it crashes when it is launched again";
    if (replay.kind_now >= 0) tell("refused %d %s\n", replay.kind_now, why);
    tell("stopped %s\n", is_hanging ? "a launch did not end" : "a launch crashed");
    if (status >= 0) {
        if (pthread_create(&guard, NULL, end_for_certain, NULL)) _exit(status);
        return;
    }
    static const char words[] = "ptxbench: the program is ended, as a kernel that was launched again did not end\n";
    put(2, words, sizeof words - 1);
    _exit(GIVEN_UP);
}

/* Replays, with signals and output held back.
 *
 * status: The exit code of the program; -1 where it goes on afterwards. */
static void replay_now(int status) {
    enum { CRASHES = 5, STOPS = 3 };
    static const int numbers[CRASHES + STOPS] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGINT, SIGTERM, SIGHUP};
    struct sigaction before[CRASHES + STOPS];
    int outputs[2] = {-1, -1};
    replay.file = open_file(getenv("PTXBENCH_LAUNCHES"), state.begin_ns, "replay");
    uint64_t launched = state.launched, in_graphs = state.in_graphs;
    tell("begin %llu\n", (unsigned long long)now_ns());
    if (replay.left_out) tell("stopped kinds or graphs were too many: %u were left out\n", replay.left_out);
    replay.is_shared = is_shared();
    replay.status = status;
    replay.kind_now = -1;
    for (int i = 0; i < CRASHES + STOPS; i++) {
        struct sigaction own = {.sa_handler = i < CRASHES ? on_crash : on_stop};
        sigaction(numbers[i], NULL, before + i);
        if (before[i].sa_handler != SIG_IGN) sigaction(numbers[i], &own, NULL);
    }
    /* What a kernel prints, it printed already. While the program goes on, its other threads may print. */
    fflush(NULL);
    int nowhere = status < 0 ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (int i = 0; i < 2 && nowhere >= 0; i++) {
        outputs[i] = dup(i + 1);
        if (outputs[i] >= 0) dup2(nowhere, i + 1);
    }
    for (int i = 0; i < 1000 && __atomic_load_n(&replay.in_flight, __ATOMIC_RELAXED) > 0; i++) {
        struct timespec look = {0, 1000000};
        nanosleep(&look, NULL);
    }
    run_replay(status);
    replay.is_done = 1;
    fflush(NULL);
    for (int i = 0; i < 2; i++)
        if (outputs[i] >= 0) {
            dup2(outputs[i], i + 1);
            close(outputs[i]);
        }
    if (nowhere >= 0) close(nowhere);
    for (int i = 0; i < CRASHES + STOPS; i++) sigaction(numbers[i], before + i, NULL);
    state.launched = launched;
    state.in_graphs = in_graphs;
    if (status < 0) {
        cupti.enable(KIND_CONCURRENT_KERNEL);
        state.is_replaying = state.asks_off = 0;
        take_turn(0);
    }
    tell("end %llu\n", (unsigned long long)now_ns());
    if (status < 0 && replay.is_stopped) raise(replay.is_stopped);
}

static void at_end_of_program(int status, void *unused) {
    (void)unused;
    if (!replay.is_on || !state.is_on || replay.is_over || getpid() != state.pid) return;
    pthread_mutex_lock(&replay.lock);
    replay.is_over = 1;
    pthread_mutex_unlock(&replay.lock);
    if (!replay.after) {
        replay_now(status);
        return;
    }
    if (!replay.is_done) {
        say("noreplay the program made %llu launches\n", (unsigned long long)replay.launches);
        return;
    }
    cupti.flush_all(1);
    tell_seen();
    for (uint32_t i = 0; i < replay.count; i++)
        if (calls_of(i)) tell_kind(i);
}

/* Starts to look at what the program does; whatever fails is said, and the program goes on without. */
static void start_replay(void) {
    const char *settings = getenv("PTXBENCH_REPLAY"), *waits = getenv("PTXBENCH_REPLAY_NOT");
    double window_ms = 0;
    unsigned long long after = 0;
    if (!settings ||
        sscanf(settings, "%lf %lf %lf %llu", &window_ms, &replay.limit_s, &replay.hang_s, &after) != 4)
        return;
    replay.after = after;
    replay.window_s = window_ms / 1e3;
    replay.has_waits = waits && !regcomp(&replay.waits, waits, REG_EXTENDED | REG_ICASE | REG_NOSUB);
    void *library = open_cupti(), *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    *(void **)&callbacks.enable = library ? dlsym(library, "cuptiEnableCallback") : NULL;
    const char *missing = NULL;
    int is_needed = 0;
#define FIND(name, arguments)                                                 \
    *(void **)&cu.name = driver ? dlsym(driver, #name) : NULL;                \
    is_needed |= !strcmp(#name, "cuLaunchKernelEx");                          \
    if (is_needed && !cu.name) missing = #name;
    DRIVER(FIND)
#undef FIND
    if (missing) {
        say("noreplay the driver has no %s\n", missing);
        return;
    }
    int code = cupti.subscribe && callbacks.enable && cupti.unsubscribe
                   ? cupti.subscribe(&callbacks.subscriber, on_call, NULL)
                   : -1;
    if (code) {
        say("noreplay another tool has CUPTI's callbacks (CUPTI code %d)\n", code);
        return;
    }
    replay.seen = calloc(MOST_SEEN, sizeof *replay.seen);
    replay.is_on = 1;
    on_record = on_kernel;
    /* What a version of CUPTI does not know, the driver that it is for does not have. */
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
        callbacks.enable(1, callbacks.subscriber, DOMAIN_DRIVER, watched[i]);
}

__attribute__((constructor)) static void offer_replay(void) { on_start = start_replay; }
