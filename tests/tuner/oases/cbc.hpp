#pragma once

// The integer program that Oases' authors solve (section V-C), by the program `cbc`: the referee.

#include <optional>

#include "papers/oases/tables.hpp"

namespace trimtab::tuner::oases::test {

// Whether `cbc` runs here; where not, says once which package has it.
[[nodiscard]] bool cbc_is_there();

struct CbcAnswer {
  bool found = false;
  Choice choice;
  double cost = 0;     // as the solver reports it
  double seconds = 0;  // of the whole process
};
// Nothing where cbc ended in another way than with an optimum or a proof that there is none.
[[nodiscard]] std::optional<CbcAnswer> solve_with_cbc(const Chain& chain, Objective objective);

}  // namespace trimtab::tuner::oases::test
