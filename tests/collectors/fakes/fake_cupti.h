/* What a test program asks of the scripted libcupti, beside CUPTI's own functions. Found by dlsym. */

#ifndef TRIMTAB_FAKE_CUPTI_H
#define TRIMTAB_FAKE_CUPTI_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint32_t kind; /* of the record */
  uint32_t stream;
  uint32_t detail; /* kernel: grid x; copies: kind of copy; graph: its id; overhead: its kind; call: its number */
  uint64_t bytes;
  uint64_t start_ns;
  uint64_t end_ns; /* 0: still running */
  const char* name;
} FakeWork;

/* Puts work on the device: the records that are switched on, a correlation number, the thread's external id. Returns
 * the correlation number. */
typedef uint32_t (*FakeLaunch)(const FakeWork* work);
typedef int (*FakeEnabled)(uint32_t kind);
typedef long (*FakeCount)(const char* function); /* calls so far */
typedef void (*FakeDrop)(uint32_t records);
typedef void (*FakeFinish)(void); /* ends all work that is still running */

#endif
