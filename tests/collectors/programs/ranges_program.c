/* A job in miniature, driven by its arguments, one command each; the library named by TRIMTAB_LIBRARY is loaded as the
 * Python client does it. The commands are in the table at the end of the file. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trimtab/client.h"

static void (*push)(const char*, int64_t);
static void (*pop)(void);
static int (*active)(void);
static uint64_t (*dropped)(void);
static char** next_argument;

static void load(void) {
  const char* path = getenv("TRIMTAB_LIBRARY");
  void* library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "no library: %s\n", dlerror());
    exit(2);
  }
  push = (void (*)(const char*, int64_t))dlsym(library, "trimtab_range_push");
  pop = (void (*)(void))dlsym(library, "trimtab_range_pop");
  active = (int (*)(void))dlsym(library, "trimtab_range_active");
  dropped = (uint64_t(*)(void))dlsym(library, "trimtab_dropped");
  if (push == NULL || pop == NULL || active == NULL || dropped == NULL) exit(2);
}

static void repeat(const char* name, int64_t times) {
  for (int64_t i = 0; i < times; ++i) {
    push(name, i);
    pop();
  }
}

static int stdin_readable(int timeout_ms) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  return poll(&input, 1, timeout_ms) > 0;
}

static void wait_line(void) {
  char byte = 0;
  while (read(0, &byte, 1) == 1 && byte != '\n') continue;
}

static void do_push(const char* text) {
  push(text, 1);
}
static void do_pop(const char* text) {
  (void)text;
  pop();
}
static void do_repeat(const char* text) {
  repeat("work", atol(text));
}

/* One buffer, other text each time: what a name cache by address would get wrong. */
static void do_reuse(const char* text) {
  char buffer[32];
  for (long i = 0; i < atol(text); ++i) {
    snprintf(buffer, sizeof(buffer), "name %ld", i % 3);
    push(buffer, i % 3);
    pop();
  }
}

static void do_deep(const char* text) {
  for (long i = 0; i < atol(text); ++i) push("deep", i);
  for (long i = 0; i < atol(text); ++i) pop();
}

static void* thread_main(void* times) {
  repeat("threaded", *(long*)times);
  push("left open by a thread", 1);
  return NULL;
}

static void do_threads(const char* text) {
  long times = atol(text);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, thread_main, &times);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
}

static void do_fork(const char* text) {
  const pid_t child = fork();
  if (child == 0) {
    pop(); /* the parent's open range is not the child's */
    push(text, 1);
    pop();
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) exit(3);
}

/* A child that inherits everything, says nothing, and outlives the parent until its standard input ends. */
static void do_orphan(const char* text) {
  (void)text;
  if (fork() == 0) {
    close(1);
    wait_line();
    _exit(0);
  }
}

static void do_exec(const char* text) {
  (void)text;
  char** arguments = next_argument - 1; /* the command's own place becomes argv[0] */
  arguments[0] = (char*)"ranges_program";
  execv("/proc/self/exe", arguments);
  exit(4);
}

static void do_active(const char* text) {
  (void)text;
  printf("active %d\n", active());
  fflush(stdout);
}
static void do_dropped(const char* text) {
  (void)text;
  printf("dropped %llu\n", (unsigned long long)dropped());
  fflush(stdout);
}

static void do_cuda(const char* text) {
  (void)text;
  void* library = dlopen(getenv("TRIMTAB_LIBRARY"), RTLD_NOW);
  int (*initialize)(void) = (int (*)(void))dlsym(library, "InitializeInjection");
  printf("cuda %d\n", initialize());
  fflush(stdout);
}

static void do_errno(const char* text) {
  (void)text;
  errno = 77;
  push("errno", 1);
  pop();
  printf("errno %d\n", errno);
  fflush(stdout);
}

static double cpu_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Some microsecond of work. */
static void work(void) {
  for (volatile int i = 0; i < 1800; ++i) continue;
}

static void push_nothing(const char* name, int64_t value) {
  (void)name;
  (void)value;
}
static void pop_nothing(void) {}

/* For so many milliseconds of processor time a range around each microsecond of work, and in turn the same work between
 * calls that do nothing: how much longer it takes with ranges, in per cent, and how many a second there are. The calls
 * stay, since to break a loop's flow costs some processors 10 to 20 ns by itself. */
static void do_cost(const char* text) {
  void (*volatile const pushes[2])(const char*, int64_t) = {push_nothing, push};
  void (*volatile const pops[2])(void) = {pop_nothing, pop};
  const double until = cpu_s() + 1e-3 * atof(text);
  long count[2] = {0, 0};
  double spent[2] = {0, 0};
  for (int turn = 0; cpu_s() < until; turn = !turn) {
    const double begin = cpu_s();
    for (int i = 0; i < 5000; ++i) {
      pushes[turn]("microsecond", i);
      work();
      pops[turn]();
    }
    count[turn] += 5000;
    spent[turn] += cpu_s() - begin;
  }
  const double bare = spent[0] / (double)count[0];
  printf("cost %.3f %.0f\n", 100 * (spent[1] / (double)count[1] / bare - 1), 1 / bare);
  fflush(stdout);
}

/* Ranges at a slow pace until a line comes. */
static void do_tick(const char* text) {
  while (!stdin_readable(5)) repeat(text, 1);
  wait_line();
}

static void do_wait(const char* text) {
  printf("%s\n", text);
  fflush(stdout);
  wait_line();
}

static void do_close(const char* text) {
  (void)text;
  for (int i = 3; i < 256; ++i) close(i);
  if (open("/dev/null", 0) < 0 || open("/dev/null", 0) < 0) exit(5); /* the numbers are ours now */
}

/* As daemons begin, and jobs of `<&- >&- 2>&-`. */
static void do_unstream(const char* text) {
  (void)text;
  for (int i = 0; i < 3; ++i) close(i);
}

/* Nobody has taken the numbers of the standard streams: what the job prints goes nowhere. */
static void do_unheard(const char* text) {
  (void)text;
  for (int i = 0; i < 3; ++i) {
    if (fcntl(i, F_GETFD) >= 0) exit(7);
  }
}

static void do_file_limit(const char* text) {
  const struct rlimit limit = {(rlim_t)atol(text), RLIM_INFINITY};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) exit(8);
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
} commands[] = {{"push", do_push},        {"pop", do_pop},
                {"repeat", do_repeat},    {"reuse", do_reuse},
                {"deep", do_deep},        {"threads", do_threads},
                {"fork", do_fork},        {"exec", do_exec},
                {"orphan", do_orphan},    {"cuda", do_cuda},
                {"active", do_active},    {"dropped", do_dropped},
                {"errno", do_errno},      {"cost", do_cost},
                {"tick", do_tick},        {"wait", do_wait},
                {"close", do_close},      {"kill", do_kill},
                {"_exit", do_quick_exit}, {"unstream", do_unstream},
                {"unheard", do_unheard},  {"file_limit", do_file_limit}};

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
  load();
  next_argument = argv + 1;
  while (*next_argument != NULL) run(*next_argument++);
  return 0;
}
