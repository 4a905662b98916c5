// Loads the plugins as NCCL does and calls them in NCCL's order, without NCCL and without a GPU: the same search for
// the library and its versions, events on the application's thread and stamps on a proxy thread, handle variables that
// are never reset, events for the parents of what the mask asks for. The interface is declared here once more, by
// offsets.
//
// Arguments are commands, done in turn; see kCommands. HOST_NEWEST is the newest interface that this "NCCL" knows (6).
// What `stream` plays is by CLOCK_REALTIME from HOST_BEGIN (ns) on, stamped by a GPU whose clock is ahead by
// HOST_GPU_AHEAD (ns).

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COLL = 2, P2P = 4, PROXY_OP = 8, PROXY_STEP = 16, KERNEL_CH = 64, NET = 128, GROUP = 1 };
enum { GROUP_API = 256, COLL_API = 512, P2P_API = 1024, KERNEL_LAUNCH = 2048 };
enum { CHANNELS = 4, MAX_COMMUNICATORS = 600 };

typedef struct {
  uint64_t type;
  void* parent;
  int rank;
  int padding;
  char rest[88];
} Descriptor;
_Static_assert(sizeof(Descriptor) == 112, "version 5");

typedef void (*Logger)(int, unsigned long, const char*, int, const char*, ...);
typedef struct {
  const char* name;
  void* init;
  int (*start)(void*, void**, Descriptor*);
  int (*stop)(void*);
  int (*record)(void*, int, void*);
  int (*finalize)(void*);
} Profiler;
typedef struct {
  const char* name;
  void* init;
  int (*choose)(void*, int, size_t, int, float**, int, int, int, int*);
  int (*finalize)(void*);
} Tuner;

static Profiler* profiler;
static int profiler_version;
static Tuner* tuner;
static int tuner_version;
static void* tuner_context;
static int mask;
static uint64_t sequence;
static uint64_t gpu_clock = 1000000;
static int failures;
static struct {
  void* context;
  int rank;
} communicators[MAX_COMMUNICATORS];
static int communicator_count;

static void check(int result, const char* call) {
  if (result == 0) return;
  ++failures;
  printf("failed %s %d\n", call, result);
}

static void log_line(int level, unsigned long subsystems, const char* file, int line, const char* format, ...) {
  (void)subsystems, (void)file, (void)line;
  va_list arguments;
  va_start(arguments, format);
  printf("log %d ", level);
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
}

// The name itself, then PREFIX-NAME.so where the name is neither a path nor a file.
static void* open_plugin(const char* prefix, const char* variable) {
  char composed[256];
  const char* name = getenv(variable);
  void* library = NULL;
  if (name == NULL || *name == '\0') {
    snprintf(composed, sizeof composed, "%s.so", prefix);
    return dlopen(composed, RTLD_NOW | RTLD_LOCAL);
  }
  library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library != NULL || strchr(name, '/') != NULL) return library;
  snprintf(composed, sizeof composed, "%s-%s.so", prefix, name);
  return dlopen(composed, RTLD_NOW | RTLD_LOCAL);
}

static void* newest(void* library, const char* stem, int* version) {
  const char* limit = getenv("HOST_NEWEST");
  for (int number = limit ? atoi(limit) : 6; library != NULL && number >= 1; --number) {
    char symbol[64];
    snprintf(symbol, sizeof symbol, "%s_v%d", stem, number);
    void* found = dlsym(library, symbol);
    if (found == NULL) continue;
    *version = number;
    return found;
  }
  return NULL;
}

static void put(Descriptor* descriptor, size_t offset, const void* value, size_t bytes) {
  memcpy((char*)descriptor + offset, value, bytes);
}
static void put_number(Descriptor* descriptor, size_t offset, uint64_t value) {
  put(descriptor, offset, &value, 8);
}
static void put_text(Descriptor* descriptor, size_t offset, const char* text) {
  put(descriptor, offset, &text, sizeof text);
}

static Descriptor event(uint64_t type, void* parent, int rank) {
  Descriptor descriptor;
  memset(&descriptor, profiler_version == 4 ? 0xa5 : 0, sizeof descriptor);  // version 4: one byte of type
  if (profiler_version == 4) {
    unsigned char small = (unsigned char)type;
    memcpy(&descriptor, &small, 1);
  } else {
    descriptor.type = type;
  }
  descriptor.parent = parent;
  descriptor.rank = rank;
  return descriptor;
}

static void start(void* context, void** handle, Descriptor* descriptor) {
  check(profiler->start(context, handle, descriptor), "start");
}

// --- the proxy thread ---

typedef struct Work {
  struct Work* next;
  void* context;
  void* parent;
  uint8_t channel;
  uint64_t begin;
  uint64_t end;
} Work;
static Work* queue_head;
static Work* queue_tail;
static int queue_busy;
static int queue_stop;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_news = PTHREAD_COND_INITIALIZER;
static pthread_t proxy;
static void* kernel_handles[CHANNELS];  // never reset, like NCCL's

static void run(const Work* work) {
  void** handle = &kernel_handles[work->channel % CHANNELS];
  Descriptor descriptor = event(KERNEL_CH, work->parent, 0);
  put(&descriptor, 24, &work->channel, 1);
  put_number(&descriptor, 32, work->begin);
  start(work->context, handle, &descriptor);
  uint64_t stamp = work->end;
  if (*handle == NULL) return;
  check(profiler->record(*handle, 22, &stamp), "record");
  check(profiler->stop(*handle), "stop");
}

static void* serve(void* unused) {
  (void)unused;
  pthread_mutex_lock(&queue_lock);
  for (;;) {
    while (queue_head == NULL && !queue_stop) pthread_cond_wait(&queue_news, &queue_lock);
    Work* work = queue_head;
    if (work == NULL) break;
    queue_head = work->next;
    if (queue_head == NULL) queue_tail = NULL;
    queue_busy = 1;
    pthread_mutex_unlock(&queue_lock);
    run(work);
    free(work);
    pthread_mutex_lock(&queue_lock);
    queue_busy = 0;
    pthread_cond_broadcast(&queue_news);
  }
  pthread_mutex_unlock(&queue_lock);
  return NULL;
}

static void enqueue(void* context, void* parent, int channel, uint64_t begin, uint64_t end) {
  Work* work = calloc(1, sizeof *work);
  *work = (Work){NULL, context, parent, (uint8_t)channel, begin, end};
  pthread_mutex_lock(&queue_lock);
  if (queue_tail != NULL) queue_tail->next = work;
  if (queue_head == NULL) queue_head = work;
  queue_tail = work;
  pthread_cond_broadcast(&queue_news);
  pthread_mutex_unlock(&queue_lock);
}

static void drain(void) {
  pthread_mutex_lock(&queue_lock);
  while (queue_head != NULL || queue_busy) pthread_cond_wait(&queue_news, &queue_lock);
  pthread_mutex_unlock(&queue_lock);
}

// --- one task, as NCCL reports it ---

static int mask_now(void) {
  return __atomic_load_n(&mask, __ATOMIC_RELAXED);
}

static void describe_collective(Descriptor* descriptor, uint64_t number, size_t count, int channels, void* group) {
  uint8_t small = (uint8_t)channels;
  put_number(descriptor, 24, number);
  put_text(descriptor, 32, "AllReduce");
  put_number(descriptor, 56, count);
  put_text(descriptor, 72, "ncclFloat32");
  put(descriptor, 80, &small, 1);
  put_text(descriptor, 88, "RING");
  put_text(descriptor, 96, "SIMPLE");
  if (profiler_version >= 5) put(descriptor, 104, &group, sizeof group);
}

static void describe_p2p(Descriptor* descriptor, const char* function, int peer, size_t count, int channels,
                         void* group) {
  uint8_t small = (uint8_t)channels;
  put_text(descriptor, 24, function);
  put_text(descriptor, 40, "ncclBfloat16");
  put_number(descriptor, 48, count);
  put(descriptor, 56, &peer, sizeof peer);
  put(descriptor, 60, &small, 1);
  if (profiler_version >= 5) put(descriptor, 64, &group, sizeof group);
}

typedef struct {
  int tasks;      // collectives in one kernel
  int channels;   // of each
  int stamped;    // channel events come at all
  int backwards;  // the stop is before the start
  int p2p;
} Batch;
enum { MAX_TASKS = 8 };

static void run_batch(int index, const Batch* batch, uint64_t number) {
  void* context = communicators[index].context;
  int rank = communicators[index].rank;
  void* api = NULL;
  void* task_api = NULL;
  void* group = NULL;
  static __thread void* handles[MAX_TASKS];  // never reset
  const int seen = mask_now();
  const int tasks = COLL | P2P | PROXY_OP | PROXY_STEP | KERNEL_CH | NET;
  if (profiler_version >= 5 && (seen & (tasks | GROUP_API | COLL_API | P2P_API | GROUP))) {
    Descriptor descriptor = event(GROUP_API, NULL, rank);
    start(context, &api, &descriptor);
    if (api != NULL) check(profiler->record(api, 23, NULL), "record");
    descriptor = event(batch->p2p ? P2P_API : COLL_API, api, rank);
    start(context, &task_api, &descriptor);
    if (task_api != NULL) check(profiler->stop(task_api), "stop");
    if (api != NULL) check(profiler->record(api, 24, NULL), "record");
  }
  if (profiler_version >= 5 && (seen & KERNEL_LAUNCH)) {
    void* launch = NULL;
    Descriptor descriptor = event(KERNEL_LAUNCH, api, rank);
    start(context, &launch, &descriptor);
    if (launch != NULL) check(profiler->stop(launch), "stop");
  }
  if (seen & (tasks | GROUP)) {
    Descriptor descriptor = event(GROUP, api, rank);
    start(context, &group, &descriptor);
  }
  const uint64_t begin = __atomic_fetch_add(&gpu_clock, 10000, __ATOMIC_RELAXED);
  for (int task = 0; task < batch->tasks && (seen & tasks); ++task) {
    Descriptor descriptor = event(batch->p2p ? P2P : COLL, profiler_version >= 5 ? task_api : group, rank);
    if (batch->p2p) {
      describe_p2p(&descriptor, "Send", 3, 1000, batch->channels, group);
    } else {
      describe_collective(&descriptor, number + (uint64_t)task, 4096, batch->channels, group);
    }
    start(context, &handles[task], &descriptor);
  }
  // The proxy may have all of it before the host is done, or long after.
  for (int task = 0; task < batch->tasks && batch->stamped && (seen & KERNEL_CH); ++task) {
    for (int channel = 0; channel < batch->channels; ++channel) {
      const uint64_t at = begin + (uint64_t)channel;
      const uint64_t end = batch->backwards ? at - 1 : at + 5000;
      enqueue(context, handles[task], channel, at, end);
    }
  }
  for (int task = 0; task < batch->tasks && (seen & tasks); ++task) {
    if (handles[task] != NULL) check(profiler->stop(handles[task]), "stop");
  }
  if (group != NULL) check(profiler->stop(group), "stop");
  if (api != NULL) check(profiler->stop(api), "stop");
}

static void run_many(int index, int count, const Batch* batch) {
  for (int i = 0; i < count; ++i) {
    run_batch(index, batch, __atomic_fetch_add(&sequence, (uint64_t)batch->tasks, __ATOMIC_RELAXED));
  }
}

static const Batch kPlain = {1, CHANNELS, 1, 0, 0};
static const Batch kFused = {3, CHANNELS, 1, 0, 0};
static const Batch kBackwards = {1, CHANNELS, 1, 1, 0};
static const Batch kSilent = {1, CHANNELS, 0, 0, 0};
static const Batch kNoChannels = {1, 0, 0, 0, 0};
static const Batch kPointToPoint = {1, 2, 1, 0, 1};

// --- commands ---

static void load(const char* argument) {
  (void)argument;
  profiler = newest(open_plugin("libnccl-profiler", "NCCL_PROFILER_PLUGIN"), "ncclProfiler", &profiler_version);
  if (profiler == NULL) {
    printf("no profiler\n");
    exit(0);
  }
  pthread_create(&proxy, NULL, serve, NULL);
  printf("profiler v%d %s\n", profiler_version, profiler->name);
}

static void introduce(uint64_t id, int nodes, int ranks, int rank) {
  void** context = &communicators[communicator_count].context;
  *context = (void*)0x77;  // what was in memory
  communicators[communicator_count].rank = rank;
  typedef int (*InitV4)(void**, int*, const char*, uint64_t, int, int, int, Logger);
  typedef int (*InitV5)(void**, uint64_t, int*, const char*, int, int, int, Logger);
  if (profiler_version == 4) {
    check(((InitV4)profiler->init)(context, &mask, "dp", id, nodes, ranks, rank, log_line), "init");
  }
  if (profiler_version == 5) {
    check(((InitV5)profiler->init)(context, id, &mask, "dp", nodes, ranks, rank, log_line), "init");
  }
  ++communicator_count;
}

static void init(const char* argument) {
  introduce(0xc0ffee0000000000ULL + (uint64_t)atoi(argument), 2, 16, 1);
}

// ranks/rank: one communicator of one node.
static void ranks(const char* argument) {
  int count = 0;
  int rank = 0;
  sscanf(argument, "%d/%d", &count, &rank);
  introduce(0xc0ffee00000000ffULL, 1, count, rank);
}

static void many_inits(const char* argument) {
  for (int i = 0; i < atoi(argument); ++i) init("9");
}

static void plain(const char* argument) {
  run_many(communicator_count - 1, atoi(argument), &kPlain);
}
static void fused(const char* argument) {
  run_many(communicator_count - 1, atoi(argument), &kFused);
}
static void backwards(const char* argument) {
  run_many(communicator_count - 1, atoi(argument), &kBackwards);
}
static void silent(const char* argument) {
  run_many(communicator_count - 1, atoi(argument), &kSilent);
}
static void no_channels(const char* argument) {
  run_many(communicator_count - 1, atoi(argument), &kNoChannels);
}
static void point_to_point(const char* argument) {
  run_many(communicator_count - 1, atoi(argument), &kPointToPoint);
}

// A graph's replays: all from one callback thread of the driver, with handles that the capture left behind.
static void* replay(void* argument) {
  run_many(communicator_count - 1, atoi(argument), &kPlain);
  return NULL;
}
static void capture(const char* argument) {
  pthread_t thread;
  pthread_create(&thread, NULL, replay, (void*)(uintptr_t)argument);
  pthread_join(thread, NULL);
}

static void threads(const char* argument) {
  pthread_t all[8];
  for (int i = 0; i < 8; ++i) pthread_create(&all[i], NULL, replay, (void*)(uintptr_t)argument);
  for (int i = 0; i < 8; ++i) pthread_join(all[i], NULL);
}

static uint64_t variable(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? 0 : strtoull(text, NULL, 10);
}

// False where that time is over.
static int wait_until(uint64_t realtime_ns) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if ((uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec > realtime_ns) return 0;
  const struct timespec until = {(time_t)(realtime_ns / 1000000000U), (long)(realtime_ns % 1000000000U)};
  while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) != 0) {
  }
  return 1;
}

// Plays the lines of a file, "FUNCTION PEER ELEMENTS BEGIN END" (ns after HOST_BEGIN): asks for each half a millisecond
// before it begins. One that this process is too late for has no events, and is counted.
static void stream(const char* path) {
  enum { kAskedBefore = 500000 };
  const uint64_t from = variable("HOST_BEGIN");
  const uint64_t ahead = variable("HOST_GPU_AHEAD");
  FILE* lines = fopen(path, "r");
  if (lines == NULL) exit(66);
  void* context = communicators[communicator_count - 1].context;
  const int rank = communicators[communicator_count - 1].rank;
  char function[16];
  int peer = 0, late = 0;
  unsigned long long count = 0, begin = 0, end = 0;
  for (uint64_t number = 0; fscanf(lines, "%15s %d %llu %llu %llu", function, &peer, &count, &begin, &end) == 5;) {
    const int p2p = strcmp(function, "AllReduce") != 0;
    Descriptor descriptor = event(p2p ? P2P : COLL, NULL, rank);
    if (p2p) {
      describe_p2p(&descriptor, strcmp(function, "Send") == 0 ? "Send" : "Recv", peer, count, CHANNELS, NULL);
    } else {
      describe_collective(&descriptor, number++, count, CHANNELS, NULL);
    }
    wait_until(from + begin - kAskedBefore);
    void* handle = NULL;
    start(context, &handle, &descriptor);
    if (handle == NULL) continue;
    const int in_time = wait_until(from + begin);
    late += !in_time;
    wait_until(from + end);
    for (int channel = 0; channel < CHANNELS && in_time; ++channel) {
      enqueue(context, handle, channel, from + begin + ahead, from + end + ahead);
    }
    check(profiler->stop(handle), "stop");
  }
  fclose(lines);
  printf("too late for %d\n", late);
}

// Events of a proxy that has no communicator, handles that are nobody's, and events that come too late.
static void strays(const char* argument) {
  (void)argument;
  void* handle = (void*)0x1234;
  Descriptor descriptor = event(KERNEL_CH, NULL, 0);
  start(NULL, &handle, &descriptor);
  if (handle != NULL) printf("a handle without a parent\n");
  descriptor = event(COLL, NULL, 0);
  describe_collective(&descriptor, 1, 4096, CHANNELS, NULL);
  handle = (void*)0x1234;
  start(NULL, &handle, &descriptor);
  if (handle != NULL) printf("a handle without a communicator\n");
  uint64_t stamp = 5;
  void* wrong[] = {NULL, (void*)0x1234, (void*)~(uintptr_t)0, (void*)((uintptr_t)1 << 63)};
  for (int i = 0; i < 4; ++i) {
    check(profiler->record(wrong[i], 22, &stamp), "record");
    check(profiler->record(wrong[i], 22, NULL), "record");
    check(profiler->stop(wrong[i]), "stop");
    descriptor = event(KERNEL_CH, wrong[i], 0);
    put_number(&descriptor, 32, 77);
    start((void*)0x40, &handle, &descriptor);
    if (handle != NULL) printf("a handle for a stray\n");
  }
  descriptor = event(COLL, NULL, 0);
  describe_collective(&descriptor, 1, 4096, 1, NULL);
  start(communicators[0].context, &handle, &descriptor);
  check(profiler->stop(handle), "stop");
  check(profiler->stop(handle), "stop");  // twice
  void* channel = NULL;
  descriptor = event(KERNEL_CH, handle, 0);
  put_number(&descriptor, 32, 100);
  start(NULL, &channel, &descriptor);
  stamp = 200;
  check(profiler->record(channel, 22, &stamp), "record");
  check(profiler->stop(channel), "stop");
  check(profiler->stop(channel), "stop");
  check(profiler->stop(handle), "stop");
  start(NULL, &channel, &descriptor);  // its collective is over
  if (channel != NULL) printf("a handle for what is over\n");
  // A parent of another process: its number is in the handle.
  const uintptr_t foreign = (uintptr_t)handle ^ (uintptr_t)1 << 50;
  descriptor = event(KERNEL_CH, (void*)foreign, 0);
  put_number(&descriptor, 32, 100);
  start(NULL, &channel, &descriptor);
  if (channel != NULL) printf("a handle for a parent of another process\n");
}

static void print_mask(const char* argument) {
  printf("mask %d %s\n", mask_now(), argument);
}

static void finalize(const char* argument) {
  (void)argument;
  drain();
  for (; communicator_count > 0; --communicator_count) {
    check(profiler->finalize(communicators[communicator_count - 1].context), "finalize");
  }
  check(profiler->finalize(NULL), "finalize");
}

static void fork_child(const char* argument) {
  drain();
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    run_many(0, atoi(argument), &kSilent);  // without a proxy thread, as a child is
    _exit(failures);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("child %d\n", status);
}

static void load_tuner(const char* argument) {
  size_t ranks = 0;
  size_t nodes = 0;
  sscanf(argument, "%zu/%zu", &ranks, &nodes);
  tuner = newest(open_plugin("libnccl-tuner", "NCCL_TUNER_PLUGIN"), "ncclTunerPlugin", &tuner_version);
  if (tuner == NULL) {
    printf("no tuner\n");
    exit(0);
  }
  typedef int (*InitV4)(size_t, size_t, Logger, void**);
  typedef int (*InitV5)(void**, uint64_t, size_t, size_t, Logger, void*, void*);
  tuner_context = NULL;
  if (tuner_version == 4) check(((InitV4)tuner->init)(ranks, nodes, log_line, &tuner_context), "tuner init");
  if (tuner_version == 5) {
    check(((InitV5)tuner->init)(&tuner_context, 5, ranks, nodes, log_line, NULL, NULL), "tuner init");
  }
  printf("tuner v%d %s\n", tuner_version, tuner->name);
}

// function/bytes: what NCCL would run then. Ring, LL128 is not available; all other costs are 10 and more.
static void choose(const char* argument) {
  int function = 0;
  size_t bytes = 0;
  sscanf(argument, "%d/%zu", &function, &bytes);
  float table[7][3];
  for (int i = 0; i < 21; ++i) table[i / 3][i % 3] = 10.0F + (float)i;
  table[1][1] = -1.0F;
  int channels = 0;
  check(tuner->choose(tuner_context, function, bytes, 1, (float**)table, 7, 3, 0, &channels), "choose");
  int best = 0;
  for (int i = 0; i < 21; ++i) {
    const float cost = table[i / 3][i % 3];
    if (cost >= 0 && cost < table[best / 3][best % 3]) best = i;
  }
  if (table[1][1] >= 0) printf("enabled what is not available\n");
  printf("chosen %d/%d channels %d cost %g\n", best / 3, best % 3, channels, (double)table[best / 3][best % 3]);
}

static void end_tuner(const char* argument) {
  (void)argument;
  check(tuner->finalize(tuner_context), "tuner finalize");
}

static void wait_line(const char* word) {
  char line[64];
  drain();
  printf("%s\n", word);
  fflush(stdout);
  if (fgets(line, sizeof line, stdin) == NULL) return;
}

static const struct {
  const char* name;
  void (*run)(const char*);
} kCommands[] = {{"load", load},       {"init", init},       {"inits", many_inits},    {"plain", plain},
                 {"fused", fused},     {"silent", silent},   {"backwards", backwards}, {"nochannels", no_channels},
                 {"capture", capture}, {"threads", threads}, {"p2p", point_to_point},  {"strays", strays},
                 {"mask", print_mask}, {"fork", fork_child}, {"finalize", finalize},   {"tuner", load_tuner},
                 {"choose", choose},   {"wait", wait_line},  {"end_tuner", end_tuner}, {"ranks", ranks},
                 {"stream", stream}};

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    char* argument = strchr(arguments[i], ':');
    if (argument != NULL) *argument++ = '\0';
    size_t command = 0;
    while (command < sizeof kCommands / sizeof *kCommands && strcmp(kCommands[command].name, arguments[i]) != 0) {
      ++command;
    }
    if (command == sizeof kCommands / sizeof *kCommands) return 64;
    kCommands[command].run(argument == NULL ? "1" : argument);
  }
  if (profiler != NULL) {
    drain();
    pthread_mutex_lock(&queue_lock);
    queue_stop = 1;
    pthread_cond_broadcast(&queue_news);
    pthread_mutex_unlock(&queue_lock);
    pthread_join(proxy, NULL);
  }
  printf("failures %d\n", failures);
  return 0;
}
