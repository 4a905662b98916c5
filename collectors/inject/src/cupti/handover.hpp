#pragma once

// CUPTI goes from us to another profiler in the process, and back. On the interface that torch.profiler uses there is
// one set of callbacks, one clock and one switch a record kind for all, and CUPTI tells nobody that they change hands:
// the buffers that it was lent by the one before are filled further with the records of the one after, who throws them
// away (seen with PyTorch 2.11 and CUPTI 13.0: the first trace of a process lost every kernel). So the calls by which a
// library that is linked with CUPTI takes it are led through here. Before they are passed on our part in CUPTI is over;
// the kinds that others have switched on, and what they fetch, say when it is ours again.
//
// A profiler that looks CUPTI's functions up itself is not seen here: TakeoverWatch notices it, later.

#include "cupti_library.hpp"

namespace trimtab::inject::cupti::handover {

// Before another's call that takes CUPTI, on that call's thread. `recording`: it has kinds on, or is about to;
// `callbacks`: they are its own from this call on.
using StandBack = void (*)(bool recording, bool callbacks);
// Others have no kind on any more; and, after that, `fetched` what was recorded. On that call's thread.
using Ended = void (*)(bool fetched);

// From now on. `library` outlives the process's last call to CUPTI. Once a process.
void begin(const Library& library, StandBack stand_back, Ended ended);
// Follows what has been loaded since the last call as well; nothing before begin(). No lock may be held; one thread at
// a time.
void look_for_profilers();
// Our callbacks and our clock are CUPTI's now: one who registered his once, and switches kinds on again, gets them
// back.
void displaced_others();

}  // namespace trimtab::inject::cupti::handover
