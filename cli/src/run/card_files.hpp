#pragma once

// The card at the end of a watched command: waited for, written and printed. Blocking, with a deadline.

#include <unistd.h>

#include <functional>
#include <optional>

#include "jobs/coordinator_client.hpp"
#include "schema/api/card.hpp"

namespace trimtab::cli {

// Where the card's files go: made if need be, so that what stands in the way is known before the command runs. Somebody
// else's folder, or link on the way, is an error: its owner decides which files are replaced. Of an absolute path the
// last folder's owner counts, of a relative one each folder's.
[[nodiscard]] Status check_card_directory(const std::string& path, uid_t own = ::geteuid());
// What check_card_directory() has made and nothing was put into.
void remove_empty_directory(const std::string& path);

// What a look at the coordinator found.
struct CardLook {
  std::optional<api::Card> card;
  std::string json;  // as it came
  std::string problem;
};

// Waits until the last steps are in: the number of steps stays the same. Nothing has to be known of the job's end,
// which the coordinator judges later.
class CardWait {
 public:
  explicit CardWait(Nanoseconds begin) : begin_(begin), changed_(begin) {}
  // True = no more will come, or the time is over.
  [[nodiscard]] bool take(CardLook look, Nanoseconds now);
  [[nodiscard]] const CardLook& last() const { return last_; }

 private:
  Nanoseconds begin_;
  Nanoseconds changed_;
  CardLook last_;
};

[[nodiscard]] CardLook look_at_card(const CoordinatorClient& client, const std::string& job);
// Gives up early where `asked_to_end` says so.
[[nodiscard]] CardLook await_card(const CoordinatorClient& client, const std::string& job, const Clock& clock,
                                  const std::function<bool()>& asked_to_end);

// Why there is no card, and what was looked for.
[[nodiscard]] std::string no_card_text(const CardLook& look, const std::string& job);

// card.json and card.txt in a folder that is checked again. Each is a new file that takes the place of what is there,
// be it a link.
[[nodiscard]] Status write_card(const std::string& directory, const CardLook& look, const std::string& text);

}  // namespace trimtab::cli
