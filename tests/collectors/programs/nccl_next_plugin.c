// A profiler plugin of somebody else, to stand behind ours. It gives out its own handles and contexts, looks whether
// all that it gets back are its own, and says at the end what it has seen. NEXT_MASK is what it asks for, NEXT_FAIL=1
// makes its init fail. Built with VERSION 4 or 5.

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Logger)(int, unsigned long, const char*, int, const char*, ...);
typedef struct {
  uint64_t type;
  void* parent;
  int rank;
  int padding;
  char rest[88];
} Descriptor;

enum { HANDLES = 1 << 16 };
static char handles[HANDLES];
static char contexts[64];
static unsigned next_handle;
static unsigned next_context;
static unsigned started[16];
static unsigned stopped;
static unsigned stamps;
static unsigned wrong;

static int is_mine(const void* handle) {
  return (const char*)handle >= handles && (const char*)handle < handles + HANDLES;
}
static unsigned add(unsigned* counter) {
  return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static int init_any(void** context, int* mask) {
  if (getenv("NEXT_FAIL") != NULL) return 3;
  *context = &contexts[add(&next_context) % sizeof contexts];
  __atomic_store_n(mask, atoi(getenv("NEXT_MASK")), __ATOMIC_RELAXED);
  return 0;
}

static int start(void* context, void** handle, Descriptor* descriptor) {
#if VERSION == 4
  const uint64_t type = descriptor->type & 0xff;
#else
  const uint64_t type = descriptor->type;
  void* group = NULL;
  if (type == 2) memcpy(&group, (char*)descriptor + 104, sizeof group);
  if (type == 4) memcpy(&group, (char*)descriptor + 64, sizeof group);
  if ((type == 2 || type == 4) && !is_mine(group)) add(&wrong);
#endif
  if ((char*)context < contexts || (char*)context >= contexts + sizeof contexts) add(&wrong);
  if ((type == 2 || type == 64 || type == 512) && !is_mine(descriptor->parent)) add(&wrong);
  add(&started[__builtin_ctzll(type | 1ULL << 15)]);
  *handle = &handles[add(&next_handle) % HANDLES];
  return 0;
}

static int stop(void* handle) {
  add(is_mine(handle) ? &stopped : &wrong);
  return 0;
}

static int record(void* handle, int state, void* argument) {
  if (!is_mine(handle)) add(&wrong);
  if (state == 22 && argument != NULL) add(&stamps);
  return 7;  // what NCCL must never see
}

static int finalize(void* context) {
  (void)context;
  printf("next: group %u coll %u p2p %u kernel %u groupapi %u collapi %u stopped %u stamps %u wrong %u\n", started[0],
         started[1], started[2], started[6], started[8], started[9], stopped, stamps, wrong);
  return 0;
}

#if VERSION == 4
static int init(void** context, int* mask, const char* name, uint64_t id, int nodes, int ranks, int rank, Logger log) {
  if (strcmp(name, "dp") != 0 || id >> 40 != 0xc0ffee || nodes != 2 || ranks != 16 || rank != 1 || !log) add(&wrong);
  return init_any(context, mask);
}
#else
static int init(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank, Logger log) {
  if (strcmp(name, "dp") != 0 || id >> 40 != 0xc0ffee || nodes != 2 || ranks != 16 || rank != 1 || !log) add(&wrong);
  return init_any(context, mask);
}
#endif

#define JOINED(stem, number) stem##number
#define SYMBOL(number) JOINED(ncclProfiler_v, number)
const struct {
  const char* name;
  void* init;
  void* start;
  void* stop;
  void* record;
  void* finalize;
} SYMBOL(VERSION) = {"Next", (void*)init, (void*)start, (void*)stop, (void*)record, (void*)finalize};
