#pragma once

// What is done about hardware that is not what it was: tuning begins again from the incumbent or goes on
// (retuning.cpp), what it has made doubtful is measured again (measuring_again.cpp), and a node that came back as other
// hardware is measured anew (measuring_anew.cpp).

#include <string>

#include "tuning/launch/launch.hpp"
#include "tuning/machine.hpp"
#include "tuning/trial/trying.hpp"

namespace trimtab::coordinator {

class Retuning {
 public:
  Retuning(Machine& machine, Launch& launch, Trying& trying) : m_(machine), launch_(launch), trying_(trying) {}

  // A warm step of the incumbent.
  [[nodiscard]] Next watch(const JobStep& step);
  // A drift was just noticed, and no question is open.
  [[nodiscard]] Next noticed();
  // Nothing is under way and the job trains: what is to be done besides.
  void train_on();
  [[nodiscard]] Next handle(const HardwareProbed& probed);
  // Nobody answered.
  [[nodiscard]] Next not_explained();
  [[nodiscard]] Next handle(const DoubtfulListed& listed);
  [[nodiscard]] Next handle(std::int32_t rank, const RankMeasured& measured);
  [[nodiscard]] Next first_look_over();
  [[nodiscard]] Next retune();

  // Is it what it was before it went away?
  [[nodiscard]] Next handle(const NodeBack& back);
  // Before the next launch. Ranks that live are ended for it in mode auto alone.
  [[nodiscard]] bool profiles_first() const;
  [[nodiscard]] Next profile_anew();
  void profiled_anew();
  // The ranks run the incumbent on what there is now: as on nodes that have joined, it is the plan to begin from.
  void begin_measuring_anew();

 private:
  [[nodiscard]] Next explained(bool tune_again);
  [[nodiscard]] MeasuringAgain* measuring_again();
  [[nodiscard]] Next not_measured(const std::string& why);
  [[nodiscard]] Next measured(const Remeasured& again);

  Machine& m_;
  Launch& launch_;
  Trying& trying_;
};

}  // namespace trimtab::coordinator
