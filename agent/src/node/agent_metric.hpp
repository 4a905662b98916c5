#pragma once

// One of the agent's own metrics: each part appends those that it knows. Pure.

#include <cstdint>
#include <string>
#include <utility>

#include "net/metric_text.hpp"

namespace trimtab::agent {

// trimtab_agent_NAME_total.
[[nodiscard]] inline net::Metric counter(const char* name, const char* help, std::uint64_t value) {
  return {std::string("trimtab_agent_") + name + "_total", true, help, static_cast<double>(value), ""};
}

// trimtab_agent_NAME; `labels` as in net::Metric.
[[nodiscard]] inline net::Metric gauge(const char* name, const char* help, double value, std::string labels = "") {
  return {std::string("trimtab_agent_") + name, false, help, value, std::move(labels)};
}

}  // namespace trimtab::agent
