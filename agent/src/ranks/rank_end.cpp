#include "ranks/rank_end.hpp"

#include <utility>

#include "processes/printable_lines.hpp"

namespace trimtab::agent {

namespace {

constexpr std::size_t kLastOutputBytes = 4096;

// One that has said how its submission ended has said goodbye; of any other nobody knows what became of the ranks.
void tell_launcher_end(const LedgerRank& launcher, const std::string& log, RankNews& news) {
  if (launcher.said_bye) return;
  const std::string output = last_lines_of_file(log, kLastOutputBytes);
  wire::RankEvent event;
  event.mutable_submission()->set_state("lost");
  event.mutable_submission()->set_message("the command `submit` ended (code " + std::to_string(launcher.exit_code) +
                                          ", signal " + std::to_string(launcher.signal) +
                                          ") and did not say how the launch did" +
                                          (output.empty() ? "" : "; its last output: " + output));
  news.tell({launcher.id.job, launcher.id.variant, 0}, launcher.launch, std::move(event));
}

}  // namespace

void tell_end(const LedgerRank& rank, const std::string& log, RankNews& news) {
  if (rank.id.rank == kLauncher) return tell_launcher_end(rank, log, news);
  wire::RankEvent event;
  event.mutable_exited()->set_exit_code(rank.exit_code);
  event.mutable_exited()->set_signal(rank.signal);
  event.mutable_exited()->set_last_output(last_lines_of_file(log, kLastOutputBytes));
  news.tell(rank.id, rank.launch, std::move(event));
}

}  // namespace trimtab::agent
