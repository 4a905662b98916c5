#pragma once

// How fast a link is: round trips all through it, and transfers of two sizes in each direction, of which the smaller
// grows until it takes long enough to be timed. The speed is that of the further bytes: neither latency nor what a
// shaper lets through at once is in it. Little of the link's time is taken, and no more than so many bytes. Where both
// ends' interfaces tell what they carried meanwhile, what others moved counts too: a job that fills the link does not
// make it slow. Knows neither sockets nor the real clock.

#include <functional>

#include "base/units.hpp"

namespace trimtab::agent {

// What a link's probe may take.
struct LinkBudget {
  Bytes bytes = Bytes{32} << 20;                 // both directions together
  Bytes largest = Bytes{4} << 20;                // of one transfer
  Nanoseconds time = std::chrono::seconds(2);    // in which bytes move
  double share = 0.2;                            // of the link's time while the probe runs
  Nanoseconds whole = std::chrono::seconds(15);  // with its rests: no further round begins after it
  int rounds = 4;                                // of both sizes, in each direction
};

// What an end's interface carried, in the direction of a transfer, while it was watched; time 0: it does not tell.
struct Carried {
  Bytes own = 0;  // of the transfer
  Bytes bytes = 0;
  Nanoseconds time{0};
};
struct CarriedAtEnds {
  Carried sender;
  Carried receiver;
};

// Two sides that move bytes. Each call returns when they have arrived at the other side, or here.
class LinkSides {
 public:
  virtual ~LinkSides() = default;
  [[nodiscard]] virtual Status round_trip() = 0;
  [[nodiscard]] virtual Status send(Bytes bytes) = 0;
  [[nodiscard]] virtual Status fetch(Bytes bytes) = 0;
  // During the last transfer.
  [[nodiscard]] virtual Result<CarriedAtEnds> carried() = 0;
};

// With what others moved meanwhile.
struct LinkCapacity {
  double bytes_per_s = 0;  // of the direction with less
  double spread = 0;       // relative: how much more the fullest transfer's time carried than the median one's
  double used = 0;         // the part of it that others moved, in the direction in which they moved more
};

struct LinkSpeed {
  double bytes_per_s = 0;     // of the slower direction, of the probe's own bytes
  double spread = 0;          // relative: how much longer the median one of the large transfers took than the fastest
  Nanoseconds round_trip{0};  // the shortest
  Bytes moved = 0;
  std::optional<LinkCapacity> capacity;  // of a link both of whose ends tell
};

// The fastest round counts: what the job moves meanwhile only makes rounds slower. A capacity is never less. `rest`
// waits that long, and fails when the probe is to end.
[[nodiscard]] Result<LinkSpeed> measure_link(LinkSides& sides, const LinkBudget& budget, const Clock& clock,
                                             const std::function<Status(Nanoseconds)>& rest);

}  // namespace trimtab::agent
