#include "node/host_metrics.hpp"

#include "host/process_facts.hpp"

namespace trimtab::agent {

namespace {

std::string label_text(const host::Sample& sample) {
  std::string text;
  for (const auto& [name, value] : sample.labels) {
    text += (text.empty() ? "{" : ",") + std::string(name) + "=\"" + net::label_value(value) + "\"";
  }
  return text.empty() ? text : text + "}";
}

}  // namespace

std::vector<net::Metric> host_metrics(const host::Samples& samples) {
  std::vector<net::Metric> metrics;
  for (const host::Sample& sample : samples) {
    metrics.push_back(
        {sample.measure->name, sample.measure->is_counter, sample.measure->help, sample.value, label_text(sample)});
  }
  return metrics;
}

std::vector<net::Metric> rank_process_metrics(const std::vector<LedgerRank>& ranks, const std::string& root) {
  std::vector<net::Metric> memory;
  std::vector<net::Metric> time;
  std::vector<net::Metric> threads;
  for (const LedgerRank& rank : ranks) {
    if (rank.ended) continue;
    const auto facts = host::read_process_facts(root, rank.pid);
    if (!facts.ok() || facts->zombie) continue;
    const std::string labels =
        net::labels({{"job", rank.id.job}, {"variant", rank.id.variant}, {"rank", std::to_string(rank.id.rank)}});
    memory.push_back({"trimtab_rank_resident_bytes", false, "Memory of a rank's process.",
                      static_cast<double>(facts->resident_bytes), labels});
    time.push_back({"trimtab_rank_cpu_seconds_total", true, "CPU time of a rank's process, all threads.",
                    std::chrono::duration<double>(facts->cpu_time).count(), labels});
    threads.push_back(
        {"trimtab_rank_threads", false, "Threads of a rank's process.", static_cast<double>(facts->threads), labels});
  }
  memory.insert(memory.end(), time.begin(), time.end());
  memory.insert(memory.end(), threads.begin(), threads.end());
  return memory;
}

std::string source_line(const host::SourceReport& report) {
  switch (report.state) {
    case host::SourceState::kFailed:
      return "what the source '" + report.source + "' reads is missing: " + report.message;
    case host::SourceState::kStalled:
      return "the source '" + report.source + "' hangs: " + report.message;
    default:
      return "";
  }
}

}  // namespace trimtab::agent
