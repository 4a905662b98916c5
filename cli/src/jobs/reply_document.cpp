#include "jobs/reply_document.hpp"

namespace trimtab::cli {

Error not_understood(const std::string& why) {
  const bool is_path = why.starts_with('$');
  return unavailable("the coordinator's answer cannot be understood: " + (is_path ? why : "it is " + why));
}

}  // namespace trimtab::cli
