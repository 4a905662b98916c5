#pragma once

// One HTML page without a network, on which a person moves a plan's knobs and sees time, memory and bubble change. It
// carries the estimates of all plans that were found with FindOptions::every. Pure.

#include <string>

#include "estimated/found_text.hpp"

namespace trimtab::cli {

[[nodiscard]] std::string found_page(const FoundPlans& plans);

}  // namespace trimtab::cli
