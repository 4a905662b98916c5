#pragma once

// What a person may forbid: a frozen job, a thrown kill switch and the site's policy keep the ranks on the incumbent.

#include "tuning/hardware/retuning.hpp"

namespace trimtab::coordinator {

class Authority {
 public:
  Authority(Machine& machine, Trying& trying, Retuning& retuning) : m_(machine), trying_(trying), retuning_(retuning) {}

  [[nodiscard]] Next handle(const KillSwitches& thrown);
  [[nodiscard]] Next freeze();
  [[nodiscard]] Next unfreeze();
  // A person wants the plan back that the job began with, for good: unfreeze() alone lets plans change again.
  [[nodiscard]] Next keep_own_plan();

 private:
  [[nodiscard]] Next hold(const Reason& reason);
  [[nodiscard]] Next release();

  Machine& m_;
  Trying& trying_;
  Retuning& retuning_;
};

}  // namespace trimtab::coordinator
