/* Ranges for a training job without NVTX: a job that links or dlopens libtrimtab-inject.so marks what it does, and the
 * agent of its node learns how long that took. The same record as an NVTX range in the domain "trimtab".
 *
 * Any thread may call any function. None of them blocks, throws, or fails; with no agent there, or with TRIMTAB=0, a
 * call costs a few nanoseconds and does nothing. Names and payloads are those of docs/protocols.md, "Ranges". */
#ifndef TRIMTAB_CLIENT_H
#define TRIMTAB_CLIENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a range on the calling thread. `name` is UTF-8, is copied before the call returns and is cut after 116 bytes;
 * NULL is
 * "(unnamed)". Ranges nest; more than 128 open ones on a thread are counted as dropped instead of recorded. */
void trimtab_range_push(const char* name, int64_t payload);

/* Closes the calling thread's innermost range that trimtab_range_push opened; without one it does nothing. */
void trimtab_range_pop(void);

/* 1 when ranges are being recorded for an agent, 0 otherwise. Tries to reach the agent, at most once a second. */
int trimtab_range_active(void);

/* How many ranges of this process have been lost so far: the ring was full, or nesting too deep. */
uint64_t trimtab_dropped(void);

#ifdef __cplusplus
}
#endif

#endif
