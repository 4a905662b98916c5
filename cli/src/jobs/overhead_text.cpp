#include "jobs/overhead_text.hpp"

#include "base/numbers.hpp"

namespace trimtab::cli {

std::string overhead_text(const api::Overhead& overhead) {
  const double share = overhead.allowed_share;
  const std::string allowed = share > 0 ? " (" + format_percent(share) + " are allowed)" : "";
  return format_ms(overhead.ms) + ", " + format_percent(overhead.share) + " of the time that the job takes" + allowed;
}

}  // namespace trimtab::cli
