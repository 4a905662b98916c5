#include "jobs/overhead_text.hpp"

#include "base/numbers.hpp"

namespace trimtab::cli {

std::string overhead_text(double ms, double share, double allowed_share) {
  const std::string allowed = allowed_share > 0 ? " (" + format_percent(allowed_share) + " are allowed)" : "";
  return format_ms(ms) + ", " + format_percent(share) + " of the time that the job takes" + allowed;
}

}  // namespace trimtab::cli
