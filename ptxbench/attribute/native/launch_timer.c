/* Counts launches, and times kernels by events around them where CUPTI cannot be had. Compiled behind injector.c.
 *
 * Preloaded, it stands before the driver's launch functions: those that a program links, those that it looks up
 * by dlsym, and those that the CUDA runtime gets from cuGetProcAddress. An event is recorded before and after
 * each launch in its stream. The begin of a kernel is then the moment at which its stream reached it, a few
 * microseconds before it ran. Launches into a graph that is being captured are not timed; a graph is timed as a
 * whole when it is launched.
 *
 * Where CUPTI times the kernels (CUDA_INJECTION64_PATH), kernels launched are only counted here, those of graphs
 * by how many each graph has, so that it is known how many there were while CUPTI did not look.
 */
#define PER_THREAD ((void *)2) /* CU_STREAM_PER_THREAD */
enum { NODE_KERNEL = 0, NODE_GRAPH = 4, MOST_GRAPHS = 1 << 13, PROBES = 64, RELAXED = 2 };
enum { MOST_STREAMS = 64 };
/* How long it is waited for a stream, and how long before a launch that finds it idle is hoped for. */
#ifndef MOST_IDLE_MS
enum { MOST_IDLE_MS = 3000, PATIENCE_MS = 30000 };
#endif
#define BLIND "a graph was launched while no kernels were looked at"
enum { UPLOADS = 2 }; /* CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD */
enum { MOST_CONTEXTS = 16, MOST_PENDING = 8192, REBASE_NS = 2000000000, BY_PER_THREAD = 2 };

typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                         void **, void **);
typedef int (*cooperative_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                              void **);
typedef int (*launch_ex_fn)(const void *, void *, void **, void **);
typedef int (*graph_fn)(void *, void *);
typedef int (*make_fn)(void **, void *, void **, char *, size_t);
typedef int (*make_flags_fn)(void **, void *, uint64_t);
typedef int (*make_params_fn)(void **, void *, void *);
typedef int (*address_fn)(const char *, void **, int, uint64_t);
typedef int (*address2_fn)(const char *, void **, int, uint64_t, void *);

/* The driver's functions: what each is called here and there, and its parameters. */
#define TIMING(F)                                                                                            \
    F(event_create, cuEventCreate, (void **, unsigned))                                                      \
    F(event_record, cuEventRecord, (void *, void *))                                                         \
    F(event_query, cuEventQuery, (void *))                                                                   \
    F(event_wait, cuEventSynchronize, (void *))                                                              \
    F(event_elapsed, cuEventElapsedTime, (float *, void *, void *))                                          \
    F(is_capturing, cuStreamIsCapturing, (void *, int *))                                                    \
    F(context, cuCtxGetCurrent, (void **))                                                                   \
    F(device, cuCtxGetDevice, (int *))                                                                       \
    F(function_name, cuFuncGetName, (const char **, void *))                                                 \
    F(kernel_name, cuKernelGetName, (const char **, void *))                                                 \
    F(graph_nodes, cuGraphGetNodes, (void *, void **, size_t *))                                             \
    F(node_type, cuGraphNodeGetType, (void *, int *))                                                        \
    F(node_graph, cuGraphChildGraphNodeGetGraph, (void *, void **))                                          \
    F(stream_query, cuStreamQuery, (void *))                                                                 \
    F(capture_mode, cuThreadExchangeStreamCaptureMode, (int *))
#define MEMBER(member, name, arguments) int (*member) arguments;
static struct {
    TIMING(MEMBER)
    int ready;
} driver;
#undef MEMBER

static struct {
    launch_fn launch[2];
    launch_ex_fn launch_ex[2];
    cooperative_fn cooperative[2];
    graph_fn graph[2], upload[2];
    make_fn make[2];
    make_flags_fn make_flags;
    make_params_fn make_params[2];
    address_fn address;
    address2_fn address2;
} real;

struct pending {
    void *begin, *end, *stream;
    uint32_t name, in_graph;
    int context;
};
/* An event whose host time is known, and spare events. */
static struct context {
    void *handle, *base, *spare[MOST_PENDING];
    uint64_t base_ns;
    int device, spares;
} contexts[MOST_CONTEXTS];
static struct pending queue[MOST_PENDING];
static size_t first, waiting;
static pthread_mutex_t timer_lock = PTHREAD_MUTEX_INITIALIZER;

static void *(*real_dlsym)(void *, const char *);

__attribute__((constructor)) static void find_dlsym(void) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    for (int i = 0; i < 3 && !real_dlsym; i++)
        *(void **)&real_dlsym = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
}

static void find_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return;
#define FIND(member, name, arguments) *(void **)&driver.member = real_dlsym(library, #name);
    TIMING(FIND)
#undef FIND
    driver.ready = driver.event_create && driver.event_record && driver.event_query && driver.event_wait &&
                   driver.event_elapsed && driver.is_capturing && driver.context && driver.device;
}

/* Sets how this thread stands to captures, and returns how it did. Unless it is RELAXED, looking at an event or a
 * stream spoils a graph that is being captured elsewhere. */
static int exchange_mode(int mode) {
    if (driver.capture_mode) driver.capture_mode(&mode);
    return mode;
}

static void *spare_event(struct context *context) {
    void *event = NULL;
    if (context->spares) return context->spare[--context->spares];
    return driver.event_create(&event, 0) ? NULL : event;
}

static void give_back(struct context *context, void *event) {
    if (event && context->spares < MOST_PENDING) context->spare[context->spares++] = event;
}

/* Returns the context of this thread, with a base event whose host time is known; -1 where there is none. */
static int context_of(void *stream) {
    void *handle = NULL;
    if (driver.context(&handle) || !handle) return -1;
    int at = 0;
    while (at < MOST_CONTEXTS && contexts[at].handle && contexts[at].handle != handle) at++;
    if (at == MOST_CONTEXTS) return -1;
    struct context *context = contexts + at;
    if (context->handle) return at;
    void *base = NULL;
    if (driver.device(&context->device) || driver.event_create(&base, 0)) return -1;
    int mode = exchange_mode(RELAXED);
    int code = driver.event_record(base, stream) || driver.event_wait(base);
    exchange_mode(mode);
    if (code) return -1;
    context->base_ns = now_ns();
    context->base = base;
    context->handle = handle;
    return at;
}

/* Writes down the launches that are over; with `wait`, all. */
static void drain(int wait) {
    int mode = exchange_mode(RELAXED);
    for (; waiting; first = (first + 1) % MOST_PENDING, waiting--) {
        struct pending *one = queue + first;
        struct context *context = contexts + one->context;
        int code = wait ? driver.event_wait(one->end) : driver.event_query(one->end);
        if (code == 600 && !wait) break; /* CUDA_ERROR_NOT_READY */
        float begin_ms, length_ms;
        if (code || driver.event_elapsed(&begin_ms, context->base, one->begin) ||
            driver.event_elapsed(&length_ms, one->begin, one->end)) {
            say_dropped(1);
            continue;
        }
        uint64_t start = context->base_ns + (uint64_t)(int64_t)((double)begin_ms * 1e6);
        uint64_t end = start + (uint64_t)((double)length_ms * 1e6);
        pthread_mutex_lock(&state.lock);
        say_device((uint32_t)context->device);
        struct launch launch = {start, end, one->name, (uint32_t)context->device,
                                (uint32_t)(uintptr_t)one->stream, one->in_graph};
        if (!put(state.bin, &launch, sizeof launch)) say_dropped(1);
        pthread_mutex_unlock(&state.lock);
        give_back(context, one->begin);
        /* Elapsed times are floats: from a base that is near they are exact. */
        if (end - context->base_ns > REBASE_NS) {
            give_back(context, context->base);
            context->base = one->end;
            context->base_ns = end;
        } else {
            give_back(context, one->end);
        }
    }
    exchange_mode(mode);
}

static void at_end_of_launches(void) {
    if (getpid() != state.pid) return;
    pthread_mutex_lock(&timer_lock);
    drain(1);
    pthread_mutex_unlock(&timer_lock);
    say_dropped(0);
    say("end %llu\n", (unsigned long long)now_ns());
}

/* Returns whether launches are written down. */
static int is_timing(void) {
    static int was_here;
    if (state.is_on || getenv("PTXBENCH_CUPTI")) return 0;
    if (!was_here) {
        was_here = 1;
        pthread_mutex_lock(&state.lock);
        int ready = open_files();
        pthread_mutex_unlock(&state.lock);
        /* A program that brings its own CUPTI, as PyTorch does, has a better clock. */
        const char *forced = getenv("PTXBENCH_TIMER_EVENTS");
        if (ready && !(forced && *forced) && open_cupti()) InitializeInjection();
        if (state.is_on) return 0;
        find_driver();
        if (ready && driver.ready) {
            say("events\n");
            atexit(at_end_of_launches);
        }
    }
    return driver.ready && state.text >= 0 && state.pid == getpid();
}

static uint32_t name_of(void *function) {
    const char *name = NULL;
    char made[32];
    if (!(driver.function_name && !driver.function_name(&name, function) && name) &&
        !(driver.kernel_name && !driver.kernel_name(&name, function) && name)) {
        snprintf(made, sizeof made, "(kernel at %p)", function);
        name = made;
    }
    pthread_mutex_lock(&state.lock);
    uint32_t number = number_of(name);
    pthread_mutex_unlock(&state.lock);
    return number;
}

/* How many kernels are in each graph that was made, by its handle. */
static struct {
    void *handle;
    size_t kernels;
} made[MOST_GRAPHS];

static size_t kernels_in(void *graph) {
    size_t count = 0, kernels = 0;
    if (driver.graph_nodes(graph, NULL, &count) || !count) return 0;
    void **nodes = calloc(count, sizeof *nodes);
    if (!nodes || driver.graph_nodes(graph, nodes, &count)) count = 0;
    for (size_t i = 0; i < count; i++) {
        int type = -1;
        void *inner = NULL;
        if (driver.node_type(nodes[i], &type)) continue;
        if (type == NODE_GRAPH && !driver.node_graph(nodes[i], &inner)) kernels += kernels_in(inner);
        kernels += type == NODE_KERNEL;
    }
    free(nodes);
    return kernels;
}

/* Returns the place of a graph by its handle, or one for it; its first one where all are taken. */
static size_t place_of(const void *handle) {
    size_t first_at = (uintptr_t)handle / 16 * 2654435761u % MOST_GRAPHS;
    for (size_t i = 0; i < PROBES; i++) {
        size_t at = (first_at + i) % MOST_GRAPHS;
        if (!made[at].handle || made[at].handle == handle) return at;
    }
    return first_at;
}

/* Returns whether CUPTI is there and looks at nothing. A graph that is launched then does not outlive that CUPTI is
 * left. */
static int is_blind(void) { return !state.has_left && (state.is_off || state.is_paused); }

static int graph_made(void **executable, void *graph, int code, uint64_t flags) {
    if (flags & UPLOADS && is_blind() && stands_between()) stay(BLIND);
    after_making();
    if (code || !executable || !stands_between()) return code;
    if (!driver.graph_nodes) find_driver();
    if (!driver.graph_nodes || !driver.node_type || !driver.node_graph) return code;
    size_t kernels = kernels_in(graph);
    pthread_mutex_lock(&turn_lock);
    size_t at = place_of(*executable);
    made[at].handle = *executable;
    made[at].kernels = kernels;
    pthread_mutex_unlock(&turn_lock);
    return code;
}

/* Waits until a stream is idle, and returns whether it is. Where it is not after MOST_IDLE_MS, a kernel may wait for
 * this thread: never again. To bring CUPTI back, a launch that finds it idle is hoped for before. */
static int wait_for(void *stream) {
    if (state.is_in_vain || !driver.stream_query || !driver.capture_mode) return 0;
    uint64_t begin_ns = now_ns(), end_ns = begin_ns + MOST_IDLE_MS * (uint64_t)1000000;
    int mode = exchange_mode(RELAXED), code;
    while ((code = driver.stream_query(stream)) == 600 && !state.is_in_vain) {
        if (state.has_left && begin_ns < state.asked_ns + PATIENCE_MS * (uint64_t)1000000) break;
        sleep_s(2e-5);
        if (now_ns() > end_ns) state.is_in_vain = 1;
    }
    exchange_mode(mode);
    return code == 0;
}

/* Returns whether what is launched in a stream goes into a graph that is being captured, or nowhere. */
static int goes_into_graph(void *stream) {
    int capturing = 0;
    if (!driver.is_capturing) find_driver();
    return driver.is_capturing && (driver.is_capturing(stream, &capturing) || capturing);
}

/* Streams in which a thread launched since CUPTI is there. */
static struct {
    void *handles[MOST_STREAMS];
    volatile size_t count;
    pthread_t thread;
} streams;

static void note_stream(void *stream) {
    if (state.has_left || state.stays || !stands_between()) return;
    if (streams.count && !pthread_equal(streams.thread, pthread_self())) return stay("several threads launch");
    for (size_t i = 0; i < streams.count; i++)
        if (streams.handles[i] == stream) return;
    pthread_mutex_lock(&turn_lock);
    /* The stream of a thread can be asked by that thread alone. */
    if (stream == PER_THREAD || streams.count == MOST_STREAMS)
        stay("it has too many streams, or such of a thread alone");
    else
        streams.handles[streams.count++] = stream;
    streams.thread = pthread_self();
    pthread_mutex_unlock(&turn_lock);
}

/* Returns whether something may run in a stream. To ask one that is captured would spoil its graph. */
static int is_busy(void *stream) {
    return goes_into_graph(stream) || !driver.stream_query || !driver.capture_mode || driver.stream_query(stream);
}

/* Returns whether nothing runs of what was launched, and forgets where that was. */
static int are_idle(void) {
    int mode = exchange_mode(RELAXED), is_idle = 1;
    for (size_t i = 0; i < streams.count && is_idle; i++) is_idle = !is_busy(streams.handles[i]);
    exchange_mode(mode);
    if (is_idle) streams.count = 0;
    return is_idle;
}

/* Behind the launch of a graph, while `launching` is held: another thread may have taken a turn meanwhile. */
static void note_graph(void) {
    if (is_blind() && stands_between()) stay(BLIND);
    pthread_rwlock_unlock(&launching);
}

/* Returns whether a host that runs ahead is to wait: what it launched would be looked at until it has run. */
static int is_held(void) {
    if (!count_of(&state.graphs)) begin_looking();
    if (state.is_off || state.stays || !cupti.finalize || on_record || other.kinds) return 0;
    return count_of(&state.graphs) - state.look_graphs >= FEW_GRAPHS &&
           now_ns() - state.look_ns < SLICE_MS * (uint64_t)1000000;
}

/* Takes a turn that was asked for, before a launch and while no graph runs in its stream. */
static void take_asked_now(void *stream, int is_graph) {
    if (is_graph && is_held()) wait_for(stream);
    if (state.asks_off != state.is_off && !state.making && (is_graph || state.has_left)) {
        __atomic_fetch_add(&state.waits, 1, __ATOMIC_RELAXED);
        take_turn(wait_for(stream));
        __atomic_fetch_sub(&state.waits, 1, __ATOMIC_RELAXED);
    }
    if (!is_graph || !is_blind() || state.has_ended) return;
    if (state.stays) return say_stays();
    int is_idle = wait_for(stream);
    pthread_mutex_lock(&turn_lock);
    if (!state.has_left && is_idle && state.is_off && !state.making) {
        cupti.flush_all(1);
        leave();
    }
    pthread_mutex_unlock(&turn_lock);
}

/* A thread that was cancelled amid a turn would keep its locks. */
static void take_asked(void *stream, int is_graph) {
    int before;
    if (!stands_between() || pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before)) return;
    take_asked_now(stream, is_graph);
    pthread_setcancelstate(before, NULL);
}

static void count_graph(const void *graph) {
    pthread_mutex_lock(&turn_lock);
    size_t at = place_of(graph), kernels = made[at].handle == graph ? made[at].kernels : 1;
    pthread_mutex_unlock(&turn_lock);
    __atomic_fetch_add(&state.graphs, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&state.in_graphs, kernels, __ATOMIC_RELAXED);
}

/* Counts a launch of a kernel, or of a graph, and holds `launching`; returns 0 where nothing runs by it. */
static int expect_launch(void *stream, const void *graph) {
    int runs = !goes_into_graph(stream);
    if (runs) {
        take_asked(stream, graph != NULL);
        note_stream(stream);
        if (graph) count_graph(graph);
        else __atomic_fetch_add(&state.launched, 1, __ATOMIC_RELAXED);
    }
    pthread_rwlock_rdlock(&launching);
    return runs;
}

/* Records the event before a launch; returns 0 where it is not timed. */
static int begin_launch(struct pending *one, void *stream, void *function) {
    if (!is_timing()) return 0;
    one->name = function ? name_of(function) : UINT32_MAX;
    one->in_graph = !function;
    one->stream = stream;
    pthread_mutex_lock(&timer_lock);
    if (waiting == MOST_PENDING) drain(0);
    one->context = waiting < MOST_PENDING ? context_of(stream) : -1;
    if (one->context >= 0) {
        one->begin = spare_event(contexts + one->context);
        one->end = spare_event(contexts + one->context);
    }
    pthread_mutex_unlock(&timer_lock);
    if (one->context >= 0 && one->begin && one->end && !driver.event_record(one->begin, stream)) return 1;
    say_dropped(1);
    return 0;
}

static int end_launch(struct pending *one, int code) {
    int is_timed = !code && !driver.event_record(one->end, one->stream);
    pthread_mutex_lock(&timer_lock);
    if (is_timed && waiting < MOST_PENDING) {
        queue[(first + waiting++) % MOST_PENDING] = *one;
    } else {
        give_back(contexts + one->context, one->begin);
        give_back(contexts + one->context, one->end);
        if (!code) say_dropped(1);
    }
    /* Behind a launch, where a host that waits for each loses no time by it. */
    drain(0);
    pthread_mutex_unlock(&timer_lock);
    return code;
}

static void *stream_of(void *stream, int per_thread) { return stream || !per_thread ? stream : PER_THREAD; }

#define LAUNCH(entry, slot, kind, more, given)                                                               \
    EXPORTED int entry(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,      \
                      unsigned bz, unsigned shared, void *stream, void **parameters more) {                 \
        if (!real.slot[kind]) *(void **)&real.slot[kind] = real_dlsym(RTLD_NEXT, #entry);                    \
        if (!real.slot[kind]) return 500; /* CUDA_ERROR_NOT_FOUND */                                        \
        struct pending one = {0};                                                                           \
        void *in = stream_of(stream, kind);                                                                 \
        int timed = expect_launch(in, NULL) && begin_launch(&one, in, function);                            \
        int code = real.slot[kind](function, gx, gy, gz, bx, by, bz, shared, stream, parameters given);     \
        pthread_rwlock_unlock(&launching);                                                                  \
        return timed ? end_launch(&one, code) : code;                                                       \
    }
#define NEXT_IS(...) , __VA_ARGS__
LAUNCH(cuLaunchKernel, launch, 0, NEXT_IS(void **extra), NEXT_IS(extra))
LAUNCH(cuLaunchKernel_ptsz, launch, 1, NEXT_IS(void **extra), NEXT_IS(extra))
LAUNCH(cuLaunchCooperativeKernel, cooperative, 0, , )
LAUNCH(cuLaunchCooperativeKernel_ptsz, cooperative, 1, , )

/* CUlaunchConfig: three dimensions of the grid and of a block, bytes of shared memory, and the stream. */
struct launch_config {
    unsigned dimensions[6], shared;
    void *stream;
};
_Static_assert(offsetof(struct launch_config, stream) == 32, "hStream");
#define LAUNCH_EX(entry, kind)                                                                               \
    EXPORTED int entry(const void *config, void *function, void **parameters, void **extra) {                \
        if (!real.launch_ex[kind]) *(void **)&real.launch_ex[kind] = real_dlsym(RTLD_NEXT, #entry);          \
        if (!real.launch_ex[kind]) return 500;                                                              \
        struct pending one = {0};                                                                           \
        void *stream = config ? ((const struct launch_config *)config)->stream : NULL;                      \
        void *in = stream_of(stream, kind);                                                                 \
        int timed = expect_launch(in, NULL) && begin_launch(&one, in, function);                            \
        int code = real.launch_ex[kind](config, function, parameters, extra);                               \
        pthread_rwlock_unlock(&launching);                                                                  \
        return timed ? end_launch(&one, code) : code;                                                       \
    }
LAUNCH_EX(cuLaunchKernelEx, 0)
LAUNCH_EX(cuLaunchKernelEx_ptsz, 1)

#define GRAPH(entry, kind)                                                                                   \
    EXPORTED int entry(void *graph, void *stream) {                                                          \
        if (!real.graph[kind]) *(void **)&real.graph[kind] = real_dlsym(RTLD_NEXT, #entry);                  \
        if (!real.graph[kind]) return 500;                                                                  \
        struct pending one = {0};                                                                           \
        void *in = stream_of(stream, kind);                                                                 \
        int timed = expect_launch(in, graph) && begin_launch(&one, in, NULL);                               \
        int code = real.graph[kind](graph, stream);                                                         \
        note_graph();                                                                                       \
        if (timed) {                                                                                        \
            pthread_mutex_lock(&state.lock);                                                                \
            one.name = number_of(WHOLE_GRAPH);                                                              \
            pthread_mutex_unlock(&state.lock);                                                              \
        }                                                                                                   \
        return timed ? end_launch(&one, code) : code;                                                       \
    }
GRAPH(cuGraphLaunch, 0)
GRAPH(cuGraphLaunch_ptsz, 1)

/* What is brought to the GPU before it is launched is taken for launched. */
#define UPLOAD(entry, kind)                                                                                  \
    EXPORTED int entry(void *graph, void *stream) {                                                          \
        if (!real.upload[kind]) *(void **)&real.upload[kind] = real_dlsym(RTLD_NEXT, #entry);                \
        if (!real.upload[kind]) return 500;                                                                 \
        pthread_rwlock_rdlock(&launching);                                                                  \
        int code = real.upload[kind](graph, stream);                                                        \
        note_graph();                                                                                       \
        return code;                                                                                        \
    }
UPLOAD(cuGraphUpload, 0)
UPLOAD(cuGraphUpload_ptsz, 1)

static void *exported(const char *name) {
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return library ? real_dlsym(library, name) : NULL;
}

/* Of a stream that is destroyed, or a context with all of its own, nothing can be asked. */
static void forget(const void *stream) {
    pthread_mutex_lock(&turn_lock);
    if (!stream && streams.count) stay("a context was destroyed");
    int mode = exchange_mode(RELAXED);
    for (size_t i = 0; i < streams.count; i++) {
        if (stream && streams.handles[i] != stream) continue;
        if (stream && is_busy(streams.handles[i])) stay("a stream was destroyed while it was busy");
        streams.handles[i--] = streams.handles[--streams.count];
    }
    exchange_mode(mode);
    pthread_mutex_unlock(&turn_lock);
}

#define FORGET(entry, is_stream)                                                                             \
    EXPORTED int entry(void *what) {                                                                         \
        static int (*next)(void *);                                                                         \
        if (!next) *(void **)&next = exported(#entry);                                                       \
        if (streams.count && stands_between()) forget((is_stream) ? what : NULL);                            \
        return next ? next(what) : 500;                                                                     \
    }
FORGET(cuStreamDestroy_v2, 1)
FORGET(cuStreamDestroy, 1)
FORGET(cuCtxDestroy_v2, 0)
FORGET(cuCtxDestroy, 0)
FORGET(cuDevicePrimaryCtxReset_v2, 0)
FORGET(cuDevicePrimaryCtxReset, 0)
FORGET(cuDevicePrimaryCtxRelease_v2, 0)
FORGET(cuDevicePrimaryCtxRelease, 0)
FORGET(cuGreenCtxDestroy, 0)

#define MAKE(entry, slot, arguments, given, flags_given)                                                           \
    EXPORTED int entry arguments {                                                                           \
        if (!real.slot) *(void **)&real.slot = real_dlsym(RTLD_NEXT, #entry);                                \
        if (!real.slot) return 500;                                                                         \
        before_making();                                                                                    \
        int code = real.slot given;                                                                         \
        return graph_made(executable, graph, code, flags_given);                                            \
    }
MAKE(cuGraphInstantiate, make[0], (void **executable, void *graph, void **node, char *log, size_t size),
     (executable, graph, node, log, size), 0)
MAKE(cuGraphInstantiate_v2, make[1], (void **executable, void *graph, void **node, char *log, size_t size),
     (executable, graph, node, log, size), 0)
MAKE(cuGraphInstantiateWithFlags, make_flags, (void **executable, void *graph, uint64_t flags),
     (executable, graph, flags), flags)
MAKE(cuGraphInstantiateWithParams, make_params[0], (void **executable, void *graph, void *how),
     (executable, graph, how), how ? *(const uint64_t *)how : 0)
MAKE(cuGraphInstantiateWithParams_ptsz, make_params[1], (void **executable, void *graph, void *how),
     (executable, graph, how), how ? *(const uint64_t *)how : 0)

EXPORTED int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
EXPORTED int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, void *status);

/* Puts this library's function in the place of the driver's, which it keeps. */
static void *in_place_of(const char *name, void *function, int per_thread) {
#define STAND(text, slot, own)                          \
    if (!strcmp(name, text)) {                          \
        if (function != (void *)(own)) *(void **)&(slot) = function; \
        return (void *)(own);                           \
    }
    if (!function || !name || strncmp(name, "cu", 2)) return function;
    if (per_thread) {
        STAND("cuLaunchKernel", real.launch[1], cuLaunchKernel_ptsz)
        STAND("cuLaunchKernelEx", real.launch_ex[1], cuLaunchKernelEx_ptsz)
        STAND("cuLaunchCooperativeKernel", real.cooperative[1], cuLaunchCooperativeKernel_ptsz)
        STAND("cuGraphLaunch", real.graph[1], cuGraphLaunch_ptsz)
        STAND("cuGraphUpload", real.upload[1], cuGraphUpload_ptsz)
        STAND("cuGraphInstantiateWithParams", real.make_params[1], cuGraphInstantiateWithParams_ptsz)
    }
    STAND("cuLaunchKernel", real.launch[0], cuLaunchKernel)
    STAND("cuLaunchKernel_ptsz", real.launch[1], cuLaunchKernel_ptsz)
    STAND("cuLaunchKernelEx", real.launch_ex[0], cuLaunchKernelEx)
    STAND("cuLaunchKernelEx_ptsz", real.launch_ex[1], cuLaunchKernelEx_ptsz)
    STAND("cuLaunchCooperativeKernel", real.cooperative[0], cuLaunchCooperativeKernel)
    STAND("cuLaunchCooperativeKernel_ptsz", real.cooperative[1], cuLaunchCooperativeKernel_ptsz)
    STAND("cuGraphUpload", real.upload[0], cuGraphUpload)
    STAND("cuGraphUpload_ptsz", real.upload[1], cuGraphUpload_ptsz)
    STAND("cuGraphLaunch", real.graph[0], cuGraphLaunch)
    STAND("cuGraphLaunch_ptsz", real.graph[1], cuGraphLaunch_ptsz)
#define FORGETS(entry) if (function == exported(#entry)) return (void *)entry;
    if (strstr(name, "Destroy") || strstr(name, "PrimaryCtxRe")) {
        FORGETS(cuStreamDestroy_v2)
        FORGETS(cuStreamDestroy)
        FORGETS(cuCtxDestroy_v2)
        FORGETS(cuCtxDestroy)
        FORGETS(cuDevicePrimaryCtxReset_v2)
        FORGETS(cuDevicePrimaryCtxReset)
        FORGETS(cuDevicePrimaryCtxRelease_v2)
        FORGETS(cuDevicePrimaryCtxRelease)
        FORGETS(cuGreenCtxDestroy)
        /* The driver may give this function another address than that by which it exports it. */
        if (!strncmp(name, "cuStreamDestroy", 15)) return (void *)cuStreamDestroy_v2;
    }
#undef FORGETS
    if (!strncmp(name, "cuGraphInstantiate", 18)) {
        STAND("cuGraphInstantiateWithFlags", real.make_flags, cuGraphInstantiateWithFlags)
        STAND("cuGraphInstantiateWithParams", real.make_params[0], cuGraphInstantiateWithParams)
        STAND("cuGraphInstantiateWithParams_ptsz", real.make_params[1], cuGraphInstantiateWithParams_ptsz)
        /* By this name there are functions of other parameters, too. */
        if (!strcmp(name, "cuGraphInstantiate_v2") || function == exported("cuGraphInstantiate_v2"))
            STAND(name, real.make[1], cuGraphInstantiate_v2)
        if (function == exported("cuGraphInstantiate")) STAND(name, real.make[0], cuGraphInstantiate)
        if (function == exported("cuGraphInstantiateWithFlags"))
            STAND(name, real.make_flags, cuGraphInstantiateWithFlags)
    }
    STAND("cuGetProcAddress_v2", real.address2, cuGetProcAddress_v2)
#undef STAND
    return function;
}

EXPORTED int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    if (!real.address) *(void **)&real.address = real_dlsym(RTLD_NEXT, "cuGetProcAddress");
    if (!real.address) return 500;
    int code = real.address(name, function, version, flags);
    if (!code && function) *function = in_place_of(name, *function, (flags & BY_PER_THREAD) != 0);
    return code;
}

EXPORTED int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, void *status) {
    if (!real.address2) *(void **)&real.address2 = real_dlsym(RTLD_NEXT, "cuGetProcAddress_v2");
    if (!real.address2) return 500;
    int code = real.address2(name, function, version, flags, status);
    if (code || !function || !name) return code;
    /* The runtime asks for this function by its old name, and gets the new one. */
    if (!strcmp(name, "cuGetProcAddress")) {
        *function = in_place_of(version >= 12000 ? "cuGetProcAddress_v2" : name, *function, 0);
        return code;
    }
    *function = in_place_of(name, *function, (flags & BY_PER_THREAD) != 0);
    return code;
}

/* A call in the tail leaves the caller's address, by which RTLD_NEXT is found, to the real dlsym. */
EXPORTED void *dlsym(void *restrict handle, const char *restrict name) {
    if (!real_dlsym) find_dlsym();
    if (strncmp(name, "cu", 2) || handle == RTLD_NEXT) return real_dlsym(handle, name);
    if (!strcmp(name, "cuGetProcAddress")) {
        void *found = real_dlsym(handle, name);
        if (found && found != (void *)cuGetProcAddress) *(void **)&real.address = found;
        return found ? (void *)cuGetProcAddress : NULL;
    }
    return in_place_of(name, real_dlsym(handle, name), 0);
}
