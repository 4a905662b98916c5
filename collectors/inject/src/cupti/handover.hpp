#pragma once

// CUPTI goes from us to another profiler in the process, and back. On the interface that torch.profiler uses there is
// one set of callbacks, one clock and one switch a record kind for all, and CUPTI tells nobody that they change hands:
// the buffers that it was lent by the one before are filled further with the records of the one after, who throws them
// away (seen with PyTorch 2.11 and CUPTI 13.0: the first trace of a process lost every kernel). So the calls by which a
// library that is linked with CUPTI takes it are led through here. Before they are passed on CUPTI is as if we had
// never used it; the calls by which the other ends say when it is ours again.
//
// A profiler that looks CUPTI's functions up itself is not seen here: TakeoverWatch notices it, later.

#include "cupti_library.hpp"
#include "imports.hpp"

namespace trimtab::inject::cupti {

class Handover {
 public:
  // What is done before another's call that takes CUPTI; on that call's thread.
  using StandBack = void (*)();
  // The other has switched kernels off; and, after that, `taken` what was recorded. On that call's thread.
  using Ended = void (*)(bool taken);

  constexpr Handover() = default;

  // From now on. `library` outlives the process's last call to CUPTI. Once a process.
  void begin(const Library& library, StandBack stand_back, Ended ended);
  // Follows what has been loaded since the last call as well. One thread at a time.
  void look_for_profilers();

  // Library entries through which calls are led.
  [[nodiscard]] int followed() const { return followed_; }

 private:
  Imports imports_;
  const Library* library_ = nullptr;
  int followed_ = 0;
};

}  // namespace trimtab::inject::cupti
