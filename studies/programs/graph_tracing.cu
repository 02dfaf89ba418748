/* What CUPTI costs a loop of CUDA graphs, and whether its times are right, when its kinds go on and off.
 *
 *   nvcc -O2 -arch=native -o graph_tracing graph_tracing.cu && ./graph_tracing kirrKrrkrr girr ...
 *
 * Each word is a process of its own, a letter a step: k and K switch records of kernels on and off, g and G
 * those of whole graphs, e and E events around each graph; i makes a graph of 900 kernels, and I does with records
 * of kernels off while it is instantiated, as `ptxbench run` does; z leaves CUPTI by cuptiFinalize, and Z does at
 * the end of a call of the driver, as NVIDIA recommends: what is switched on behind it attaches CUPTI anew; j goes
 * to another graph, and back; r launches the graph 200 times, waits for each, launches one kernel behind it, and prints what that took (median
 * and most) and what CUPTI said of it; x does without waiting, and switches records of kernels each 20 launches,
 * amid those that run. First of all, each on its own: c gives CUPTI the host's clock, p has it flush each 0.2 s,
 * s gives it buffers of 4 kB, f flushes from another thread, l launches kernels in clusters that may begin before
 * the one before them ends, n launches graphs in CUDA's default stream, and m copies a word to the host behind
 * each, as a program does that reads a token.
 *
 * As a library (nvcc -shared -Xcompiler -fPIC -o graph_tracing.so) it switches CUPTI for graph_tracing.py.
 */
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

enum { KERNEL = 10, GRAPH = 51, NODES = 900, LAUNCHES = 200 };
struct Kernel { /* the common beginning of CUpti_ActivityKernel6 and later */
  uint32_t kind; uint8_t a[12]; uint64_t start, end; uint8_t b[112]; uint64_t node; uint32_t c, graph;
};
struct Graph { uint32_t kind, correlation; uint64_t start, end; uint32_t device, graph; };
struct Seen { uint64_t start, end; bool in_graph; };
static std::vector<Seen> kernels, graphs;
static std::mutex lock;
static struct {
  int (*enable)(uint32_t), (*disable)(uint32_t), (*flush)(uint32_t), (*flush_period)(uint32_t), (*finalize)();
  int (*next_record)(uint8_t *, size_t, void **), (*callbacks)(void *, void *), (*clock)(uint64_t (*)());
  int (*subscribe)(void **, void *, void *), (*enable_domain)(uint32_t, void *, uint32_t), (*driver)(int *);
} cupti;
static bool is_attached, has_clock, leaves;
static size_t buffer_bytes = 1 << 20;
static uint64_t host_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch()).count();
}
static void on_request(uint8_t **to, size_t *size, size_t *most) {
  *to = (uint8_t *)aligned_alloc(8, *size = buffer_bytes);
  *most = 0;
}
static void on_complete(void *, uint32_t, uint8_t *from, size_t, size_t valid) {
  std::lock_guard<std::mutex> held(lock);
  void *at = nullptr;
  while (valid && !cupti.next_record(from, valid, &at)) {
    if (*(uint32_t *)at == KERNEL) {
      Kernel one; memcpy(&one, at, sizeof one);
      kernels.push_back({one.start, one.end, one.node != 0});
    } else if (*(uint32_t *)at == GRAPH) {
      Graph one; memcpy(&one, at, sizeof one);
      graphs.push_back({one.start, one.end, true});
    }
  }
  free(from);
}
__global__ void inside(float *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i] = x[i] * .5f + 1; }
__global__ void behind(float *x) { for (int n = 0; n < 64; n++) x[threadIdx.x] = x[threadIdx.x] * .5f + 1; }
static double median(std::vector<double> all) {
  if (all.empty()) return 0;
  std::nth_element(all.begin(), all.begin() + all.size() / 2, all.end());
  return all[all.size() / 2];
}
static double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
static void say() {
  std::vector<double> in, alone, whole;
  std::vector<uint64_t> starts;
  for (auto &one : kernels) {
    (one.in_graph ? in : alone).push_back(double(one.end - one.start) / 1e3);
    if (one.in_graph) starts.push_back(one.start);
  }
  for (auto &one : graphs) whole.push_back(double(one.end - one.start) / 1e3);
  std::sort(starts.begin(), starts.end());
  size_t apart = std::unique(starts.begin(), starts.end()) - starts.begin();
  printf(" in graphs %7zu, %7zu begins, %8.2f us; alone %4zu, %6.2f us; graphs %4zu, %8.2f us\n", in.size(), apart,
         median(in), alone.size(), median(alone), graphs.size(), median(whole));
  kernels.clear();
  graphs.clear();
}
static bool find_cupti() {
  void *library = nullptr;
  for (const char *name : {getenv("CUPTI") ? getenv("CUPTI") : "", "libcupti.so.13", "libcupti.so.12",
                           "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so", "/usr/local/cuda/lib64/libcupti.so"})
    if (!library && *name) library = dlopen(name, RTLD_NOW);
  if (!library) return printf("no CUPTI: %s\n", dlerror()), false;
#define FIND(member, name) *(void **)&cupti.member = dlsym(library, name)
  FIND(enable, "cuptiActivityEnable"), FIND(disable, "cuptiActivityDisable"), FIND(flush, "cuptiActivityFlushAll");
  FIND(flush_period, "cuptiActivityFlushPeriod"), FIND(next_record, "cuptiActivityGetNextRecord");
  FIND(callbacks, "cuptiActivityRegisterCallbacks"), FIND(clock, "cuptiActivityRegisterTimestampCallback");
  FIND(finalize, "cuptiFinalize"), FIND(subscribe, "cuptiSubscribe"), FIND(enable_domain, "cuptiEnableDomain");
  *(void **)&cupti.driver = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuDriverGetVersion");
  return true;
}
/* CUPTI's callback of driver calls; the site is the first word of its data, 1 at a call's end. */
static void on_call(void *, uint32_t, uint32_t, const void *data) {
  if (leaves && *(const uint32_t *)data == 1) leaves = false, cupti.finalize();
}
/* Switches records on or off, or leaves CUPTI; returns its code. */
extern "C" int trace(char step) {
  uint32_t kind = step == 'k' || step == 'K' ? KERNEL : GRAPH;
  if (!cupti.enable && !find_cupti()) return -1;
  if (step == 'c') has_clock = true, cupti.clock(host_ns);
  if (!is_attached && strchr("kgc", step)) {
    if (has_clock) cupti.clock(host_ns);
    int code = cupti.callbacks((void *)on_request, (void *)on_complete);
    if (code) return code;
    is_attached = true;
  }
  switch (step) {
    case 'k': case 'g': return cupti.enable(kind);
    case 'K': case 'G': return cupti.disable(kind);
    case 'z': case 'Z': {
      void *subscriber = nullptr;
      cupti.flush(1);
      is_attached = false;
      if (step == 'z') return cupti.finalize();
      int code = cupti.subscribe(&subscriber, (void *)on_call, nullptr), version;
      if (code || (code = cupti.enable_domain(1, subscriber, 1))) return code;
      leaves = true;
      cupti.driver(&version);
      return leaves ? -2 : 0; /* -2: the call was not seen */
    }
  }
  return 0;
}
/* Prints what CUPTI said since. */
extern "C" void trace_say() {
  if (is_attached) cupti.flush(1);
  say();
  fflush(stdout);
}
static int run(const char *steps) {
  float *x; cudaStream_t stream; cudaGraphExec_t exec = nullptr, other = nullptr; cudaEvent_t begin, end;
  bool has_events = false, has_clusters = false, in_default = false, copies = false;
  /* CUPTI is there before CUDA is, as an injected library has it. */
  const char *at = steps;
  for (; *at && strchr("kgcpsflnm", *at); at++) {
    if (strchr("kgc", *at)) trace(*at);
    if (*at == 'p') cupti.flush_period(200);
    if (*at == 's') buffer_bytes = 1 << 12;
    has_clusters |= *at == 'l', in_default |= *at == 'n', copies |= *at == 'm';
    if (*at == 'f') std::thread([] { for (;;) usleep(50000), cupti.flush(0); }).detach();
  }
  cudaMalloc(&x, 132 * 256 * 4); cudaMemset(x, 0, 132 * 256 * 4); cudaStreamCreate(&stream);
  cudaEventCreate(&begin); cudaEventCreate(&end);
  cudaStream_t where = in_default ? nullptr : stream;
  float word;
  printf("== %s\n", steps);
  for (; *at; at++) {
    int code = 0;
    switch (*at) {
      case 'k': case 'K': case 'g': case 'G': case 'z': case 'Z': {
        double from = now_us();
        code = trace(*at);
        printf("%.*s: %8.2f us to switch\n", int(at - steps + 1), steps, now_us() - from);
        break;
      }
      case 'j': std::swap(exec, other); break;
      case 'e': case 'E': has_events = *at == 'e'; break;
      case 'i': case 'I': {
        cudaGraph_t graph;
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
        cudaLaunchAttribute how[2] = {};
        how[0].id = cudaLaunchAttributeClusterDimension;
        how[0].val.clusterDim.x = 2, how[0].val.clusterDim.y = how[0].val.clusterDim.z = 1;
        how[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        how[1].val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t as = {};
        as.gridDim = dim3(132), as.blockDim = dim3(256), as.stream = stream;
        as.attrs = how, as.numAttrs = has_clusters ? 2 : 0;
        for (int i = 0; i < NODES; i++) cudaLaunchKernelEx(&as, inside, x);
        cudaStreamEndCapture(stream, &graph);
        if (*at == 'I') trace('K');
        code = cudaGraphInstantiate(&exec, graph, 0);
        if (*at == 'I') trace('k');
        break;
      }
      case 'x': {
        double from = now_us();
        for (int i = 0; i < LAUNCHES; i++) {
          if (i % 20 == 0) trace(i % 40 ? 'k' : 'K');
          cudaGraphLaunch(exec, where);
        }
        cudaStreamSynchronize(where);
        printf("%.*s: %8.2f us", int(at - steps + 1), steps, (now_us() - from) / LAUNCHES);
        trace_say();
        break;
      }
      case 'r': {
        std::vector<double> each;
        for (int i = 0; i < LAUNCHES; i++) {
          double from = now_us();
          if (has_events) cudaEventRecord(begin, where);
          cudaGraphLaunch(exec, where);
          if (has_events) cudaEventRecord(end, where);
          if (copies) cudaMemcpyAsync(&word, x, sizeof word, cudaMemcpyDeviceToHost, where);
          else behind<<<1, 32, 0, where>>>(x);
          cudaStreamSynchronize(where);
          each.push_back(now_us() - from);
        }
        double most = *std::max_element(each.begin(), each.end());
        printf("%.*s: %8.2f us, at most %8.2f", int(at - steps + 1), steps, median(each), most);
        trace_say();
      }
    }
    if (code) printf("%.*s: code %d\n", int(at - steps + 1), steps, code);
  }
  return printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize())), 0;
}
int main(int count, char **words) {
  for (int i = 1; i < count; i++) {
    fflush(stdout);
    if (fork() == 0) { int code = run(words[i]); fflush(stdout); _exit(code); }
    int status; wait(&status);
    if (status) printf("%s ended with status %d\n", words[i], status);
  }
}
