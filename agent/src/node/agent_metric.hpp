#pragma once

// One of the agent's own metrics: each part appends those that it knows. Pure.

#include "net/metric_text.hpp"

namespace trimtab::agent {

// trimtab_agent_NAME_total.
inline void add_counter(std::vector<net::Metric>& into, const char* name, const char* help, std::uint64_t value) {
  into.push_back({std::string("trimtab_agent_") + name + "_total", true, help, static_cast<double>(value), ""});
}

// trimtab_agent_NAME; `labels` as in net::Metric.
template <typename Number>
void add_gauge(std::vector<net::Metric>& into, const char* name, const char* help, Number value,
               std::string labels = "") {
  into.push_back({std::string("trimtab_agent_") + name, false, help, static_cast<double>(value), std::move(labels)});
}

// One of a part's counters.
template <typename Counters>
struct CounterMetric {
  const char* name;
  const char* help;
  std::uint64_t Counters::*value;
};

template <typename Counters, std::size_t Count>
void add_counters(std::vector<net::Metric>& into, const CounterMetric<Counters> (&metrics)[Count],
                  const Counters& counters) {
  for (const auto& one : metrics) add_counter(into, one.name, one.help, counters.*one.value);
}

}  // namespace trimtab::agent
