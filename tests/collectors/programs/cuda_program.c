/* A CUDA program in miniature: a fake driver, a scripted libcupti, and commands as arguments, one each. FAKE_CUDA and
 * FAKE_CUPTI_LIBRARY are paths, and FAKE_PROFILER that of a profiler which is linked with the latter; the injected
 * library comes by CUDA_INJECTION64_PATH, as the driver loads it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_cupti.h"

enum { KERNEL = 10, MEMCPY = 1, MEMSET = 2, RUNTIME = 5, OVERHEAD = 17, MEMCPY2 = 22, GRAPH = 51 };

static int (*cu_init)(unsigned);
static FakeLaunch launch;
static FakeEnabled enabled;
static FakeCount count;
static FakeDrop drop;
static FakeFinish finish;
static int (*enable)(uint32_t);
static int (*disable)(uint32_t);
static int (*flush)(uint32_t);
static int (*register_callbacks)(void*, void*);
static int (*next_record)(uint8_t*, size_t, uint8_t**);
static void (*push)(const char*, int64_t);
static void (*pop)(void);
static char** next_argument;

static void* load(const char* path) {
  void* library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "no library: %s\n", dlerror());
    exit(2);
  }
  return library;
}

static void no_push(const char* name, int64_t payload) {
  (void)name;
  (void)payload;
}
static void no_pop(void) {}

static void load_all(void) {
  void* cupti = load(getenv("FAKE_CUPTI_LIBRARY"));
  launch = (FakeLaunch)dlsym(cupti, "fake_launch");
  enabled = (FakeEnabled)dlsym(cupti, "fake_enabled");
  count = (FakeCount)dlsym(cupti, "fake_count");
  drop = (FakeDrop)dlsym(cupti, "fake_drop");
  finish = (FakeFinish)dlsym(cupti, "fake_finish");
  enable = (int (*)(uint32_t))dlsym(cupti, "cuptiActivityEnable");
  disable = (int (*)(uint32_t))dlsym(cupti, "cuptiActivityDisable");
  flush = (int (*)(uint32_t))dlsym(cupti, "cuptiActivityFlushAll");
  register_callbacks = (int (*)(void*, void*))dlsym(cupti, "cuptiActivityRegisterCallbacks");
  next_record = (int (*)(uint8_t*, size_t, uint8_t**))dlsym(cupti, "cuptiActivityGetNextRecord");
  cu_init = (int (*)(unsigned))dlsym(load(getenv("FAKE_CUDA")), "cuInit");
  push = no_push;
  pop = no_pop;
}

/* The range functions of the library that the driver, or TRIMTAB_LIBRARY's reader, has loaded. */
static void take_ranges_of(const char* path, int mode) {
  void* injected = path == NULL ? NULL : dlopen(path, RTLD_NOW | mode);
  if (injected == NULL) return;
  push = (void (*)(const char*, int64_t))dlsym(injected, "trimtab_range_push");
  pop = (void (*)(void))dlsym(injected, "trimtab_range_pop");
}
static void do_init(const char* text) {
  (void)text;
  if (cu_init(0) != 0) exit(3);
  take_ranges_of(getenv("CUDA_INJECTION64_PATH"), RTLD_NOLOAD);
}
/* As the Python client does it, with CUDA or without. */
static void do_ranges(const char* text) {
  (void)text;
  take_ranges_of(getenv("TRIMTAB_LIBRARY"), 0);
}

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static FakeWork work_of(uint32_t kind, const char* name) {
  const uint64_t begin = now_ns();
  FakeWork work = {.kind = kind, .stream = 7, .detail = 64, .bytes = 4096, .start_ns = begin, .end_ns = begin + 1000};
  work.name = name;
  return work;
}

static void launch_kernel(const char* name) {
  const FakeWork work = work_of(KERNEL, name);
  launch(&work);
}

static void do_launch(const char* text) {
  for (long i = 0; i < atol(text); ++i) launch_kernel(i % 2 == 0 ? "gemm" : "layernorm");
}
static void do_kernel(const char* text) {
  launch_kernel(text);
}
static void do_memcpy(const char* text) {
  FakeWork work = work_of(MEMCPY, NULL);
  work.detail = 1;
  work.bytes = (uint64_t)atol(text);
  launch(&work);
}
static void do_memcpy2(const char* text) {
  FakeWork work = work_of(MEMCPY2, NULL);
  work.detail = 10;
  work.bytes = (uint64_t)atol(text);
  launch(&work);
}
static void do_memset(const char* text) {
  FakeWork work = work_of(MEMSET, NULL);
  work.bytes = (uint64_t)atol(text);
  launch(&work);
}
static void do_graph(const char* text) {
  FakeWork work = work_of(GRAPH, NULL);
  work.detail = (uint32_t)atol(text);
  launch(&work);
}
static void do_overhead(const char* text) {
  FakeWork work = work_of(OVERHEAD, NULL);
  work.detail = 2u << 16;
  work.end_ns = work.start_ns + (uint64_t)atol(text);
  launch(&work);
}
static void do_command_buffer(const char* text) {
  FakeWork work = work_of(OVERHEAD, NULL);
  work.detail = 6u << 16;
  work.end_ns = work.start_ns + (uint64_t)atol(text);
  launch(&work);
}
static void do_call(const char* text) {
  FakeWork work = work_of(RUNTIME, NULL);
  work.detail = (uint32_t)atol(text);
  const char* times = strchr(text, 'x');
  for (long i = times == NULL ? 1 : atol(times + 1); i > 0; --i) launch(&work);
}
static void do_lost(const char* text) {
  FakeWork work = work_of(KERNEL, "lost");
  work.start_ns = work.end_ns = 0;
  for (long i = 0; i < atol(text); ++i) launch(&work);
}
static void do_running(const char* text) {
  FakeWork work = work_of(KERNEL, text);
  work.end_ns = 0;
  launch(&work);
}
static void do_finish(const char* text) {
  (void)text;
  finish();
}
static void do_drop(const char* text) {
  drop((uint32_t)atol(text));
}

static void do_push(const char* text) {
  push(text, 1);
}
static void do_pop(const char* text) {
  (void)text;
  pop();
}
/* While kernels are recorded CUPTI says that it takes so many percent of the time: of the real one, however long a
 * loaded machine makes a step. */
static uint64_t overhead_percent;
static uint64_t step_ended_ns;
static void do_costly(const char* text) {
  overhead_percent = (uint64_t)atol(text);
  step_ended_ns = now_ns();
}
static void pay(void) {
  const uint64_t now = now_ns();
  const uint64_t passed = now - step_ended_ns;
  step_ended_ns = now;
  if (overhead_percent == 0 || !enabled(KERNEL)) return;
  FakeWork work = work_of(OVERHEAD, NULL);
  work.detail = 2u << 16;
  work.end_ns = work.start_ns + passed * overhead_percent / 100;
  launch(&work);
}
static void step(void) {
  push("step", 1);
  pay();
  for (int i = 0; i < 10; ++i) launch_kernel("gemm");
  pop();
}
static void do_step(const char* text) {
  for (long i = 0; i < atol(text); ++i) step();
}

static void* thread_main(void* times) {
  for (long i = 0; i < *(long*)times; ++i) launch_kernel("threaded");
  return NULL;
}
static void do_threads(const char* text) {
  long times = atol(text);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, thread_main, &times);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
}

static void* endless(void* unused) {
  (void)unused;
  for (;;) launch_kernel("endless");
  return NULL;
}
static void do_background(const char* text) {
  for (long i = 0; i < atol(text); ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, endless, NULL);
    pthread_detach(thread);
  }
}

/* Another profiler, as torch.profiler does it: takes the callbacks, switches kinds on, off again at its end. */
static uint64_t foreign_records;
static void foreign_requested(uint8_t** buffer, size_t* bytes, size_t* most) {
  *bytes = 4096;
  *buffer = calloc(1, *bytes);
  *most = 0;
}
static void foreign_completed(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid) {
  (void)context;
  (void)stream;
  uint8_t* record = NULL;
  while (next_record(buffer, valid, &record) == 0) __atomic_fetch_add(&foreign_records, 1, __ATOMIC_RELAXED);
  if (bytes == 4096) free(buffer); /* not one that it has lent: left alone, as torch.profiler does */
}
static void do_steal(const char* text) {
  (void)text;
  register_callbacks((void*)foreign_requested, (void*)foreign_completed);
  enable(KERNEL);
  enable(RUNTIME);
}
static void do_give_back(const char* text) {
  (void)text;
  flush(0);
  disable(KERNEL);
  disable(RUNTIME);
}
static void expect_end(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) exit(3);
}

/* A profiler's library, loaded before or after CUDA starts. */
static void (*profiler_begin)(void);
static int (*profiler_end)(int*);
static void (*profiler_call)(char, uint32_t);
static int (*profiler_kernels)(void);
static void do_profiler(const char* text) {
  (void)text;
  void* profiler = load(getenv("FAKE_PROFILER"));
  profiler_begin = (void (*)(void))dlsym(profiler, "fake_profiler_begin");
  profiler_end = (int (*)(int*))dlsym(profiler, "fake_profiler_end");
  profiler_call = (void (*)(char, uint32_t))dlsym(profiler, "fake_profiler_call");
  profiler_kernels = (int (*)(void))dlsym(profiler, "fake_profiler_kernels");
}
/* "e10f1": enable 10, then flush with 1. */
static void do_calls(const char* text) {
  while (*text != '\0') {
    const char what = *text;
    char* end = NULL;
    const uint32_t argument = (uint32_t)strtoul(text + 1, &end, 10);
    profiler_call(what, argument);
    text = end;
  }
}
static void do_kernels(const char* text) {
  (void)text;
  printf("kernels %d\n", profiler_kernels());
  fflush(stdout);
}
/* A child that traces, as far as one can after a fork. */
static void do_fork_profile(const char* text) {
  (void)text;
  const pid_t child = fork();
  if (child == 0) {
    alarm(10); /* a lock that its parent held is no excuse */
    profiler_begin();
    int others = 0;
    profiler_end(&others);
    exit(0);
  }
  expect_end(child);
}
static void do_profile(const char* text) {
  (void)text;
  profiler_begin();
}
static void do_profiled(const char* text) {
  (void)text;
  int others = 0;
  const int kernels = profiler_end(&others);
  printf("kernels %d, buffers of others %d\n", kernels, others);
  fflush(stdout);
}
static void do_foreign(const char* text) {
  (void)text;
  printf("foreign %d\n", __atomic_load_n(&foreign_records, __ATOMIC_RELAXED) > 0);
  fflush(stdout);
}

static void do_fork(const char* text) {
  const pid_t child = fork();
  if (child == 0) {
    push(text, 1);
    pop();
    exit(0);
  }
  expect_end(child);
}
static void do_fork_init(const char* text) {
  const pid_t child = fork();
  if (child == 0) {
    do_init(text);
    launch_kernel(text);
    exit(0);
  }
  expect_end(child);
}
static void do_exec(const char* text) {
  (void)text;
  char** arguments = next_argument - 1;
  arguments[0] = (char*)"cuda_program";
  execv("/proc/self/exe", arguments);
  exit(4);
}

static void do_enable(const char* text) {
  enable((uint32_t)atol(text));
}
static void do_disable(const char* text) {
  disable((uint32_t)atol(text));
}
static void do_enabled(const char* text) {
  printf("enabled %d\n", enabled((uint32_t)atol(text)));
  fflush(stdout);
}
static void do_count(const char* text) {
  printf("count %ld\n", count(text));
  fflush(stdout);
}

static int stdin_readable(int timeout_ms) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  return poll(&input, 1, timeout_ms) > 0;
}
static void wait_line(void) {
  char byte = 0;
  while (read(0, &byte, 1) == 1 && byte != '\n') continue;
}
/* Training steps at a slow pace until a line comes. */
static void do_tick(const char* text) {
  (void)text;
  while (!stdin_readable(2)) step();
  wait_line();
}
static void do_wait(const char* text) {
  printf("%s\n", text);
  fflush(stdout);
  wait_line();
}
static void do_kill(const char* text) {
  (void)text;
  kill(getpid(), SIGKILL);
}
static void do_quick_exit(const char* text) {
  _exit(atoi(text));
}

static const struct {
  const char* name;
  void (*run)(const char*);
} commands[] = {{"init", do_init},
                {"ranges", do_ranges},
                {"launch", do_launch},
                {"kernel", do_kernel},
                {"memcpy", do_memcpy},
                {"memcpy2", do_memcpy2},
                {"memset", do_memset},
                {"graph", do_graph},
                {"overhead", do_overhead},
                {"command_buffer", do_command_buffer},
                {"call", do_call},
                {"lost", do_lost},
                {"running", do_running},
                {"finish", do_finish},
                {"drop", do_drop},
                {"push", do_push},
                {"pop", do_pop},
                {"step", do_step},
                {"threads", do_threads},
                {"background", do_background},
                {"steal", do_steal},
                {"give_back", do_give_back},
                {"profiler", do_profiler},
                {"calls", do_calls},
                {"kernels", do_kernels},
                {"fork_profile", do_fork_profile},
                {"profile", do_profile},
                {"profiled", do_profiled},
                {"foreign", do_foreign},
                {"fork", do_fork},
                {"fork_init", do_fork_init},
                {"exec", do_exec},
                {"enable", do_enable},
                {"disable", do_disable},
                {"costly", do_costly},
                {"enabled", do_enabled},
                {"count", do_count},
                {"tick", do_tick},
                {"wait", do_wait},
                {"kill", do_kill},
                {"_exit", do_quick_exit}};

static void run(char* argument) {
  char* colon = strchr(argument, ':');
  const char* text = colon == NULL ? "" : colon + 1;
  const size_t length = colon == NULL ? strlen(argument) : (size_t)(colon - argument);
  for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); ++i) {
    if (strlen(commands[i].name) == length && strncmp(commands[i].name, argument, length) == 0) {
      commands[i].run(text);
      return;
    }
  }
  exit(6);
}

int main(int argc, char** argv) {
  (void)argc;
  load_all();
  next_argument = argv + 1;
  while (*next_argument != NULL) run(*next_argument++);
  return 0;
}
