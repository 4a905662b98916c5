#include "run/card_files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "daemons/agent_states.hpp"
#include "files.hpp"
#include "schema/durable_file.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPatience = std::chrono::seconds(5);
// Where no step is known the ranks told none: what is on its way arrives sooner.
constexpr Nanoseconds kPatienceWithout = std::chrono::seconds(2);
// Agents pass steps on at once; a busy machine is slow.
constexpr Nanoseconds kQuiet = std::chrono::milliseconds(800);
constexpr Nanoseconds kAnswer = std::chrono::seconds(1);
constexpr Nanoseconds kPoll = std::chrono::milliseconds(200);

std::int64_t steps_of(const CardLook& look) {
  return look.card ? look.card->steps : 0;
}

// Of one name on the way. What is not there yet is no objection.
Status check_owner(const std::string& path, bool link_alone, uid_t own) {
  struct stat seen {};
  const auto is_foreign = [&] { return seen.st_uid != 0 && seen.st_uid != own; };
  const bool is_link = ::lstat(path.c_str(), &seen) == 0 && S_ISLNK(seen.st_mode);
  if (is_link && is_foreign()) return unavailable(path + " is a link that belongs to " + user_name(seen.st_uid));
  if (link_alone || ::stat(path.c_str(), &seen) != 0 || !is_foreign()) return {};
  return unavailable(path + " belongs to " + user_name(seen.st_uid));
}

Status check_owners(const std::filesystem::path& path, uid_t own) {
  std::filesystem::path reached;
  for (const std::filesystem::path& name : path) {
    reached /= name;
    if (name == ".." || name == "/") continue;
    TRIMTAB_TRY_STATUS(check_owner(reached.string(), path.is_absolute() && reached != path, own));
  }
  return {};
}

}  // namespace

Status check_card_directory(const std::string& path, uid_t own) {
  const auto plain = std::filesystem::path(path + "/.").lexically_normal().parent_path();
  // Before, as a link would be followed, and again, as it may be somebody else who has made it.
  TRIMTAB_TRY_STATUS(check_owners(plain, own));
  TRIMTAB_TRY_STATUS(make_directories(path));
  TRIMTAB_TRY_STATUS(check_owners(plain, own));
  if (access(path.c_str(), W_OK | X_OK) == 0) return {};
  return unavailable("cannot write in " + path + ": " + std::strerror(errno));
}

void remove_empty_directory(const std::string& path) {
  if (rmdir(path.c_str()) == 0) rmdir(std::filesystem::path(path).parent_path().c_str());
}

bool CardWait::take(CardLook look, Nanoseconds now) {
  const bool changed = steps_of(look) != steps_of(last_);
  if (changed) changed_ = now;
  last_ = std::move(look);
  if (now - begin_ >= kPatience) return true;
  if (steps_of(last_) > 0) return now - changed_ >= kQuiet;
  return now - begin_ >= kPatienceWithout;
}

CardLook look_at_card(const CoordinatorClient& client, const std::string& job) {
  CardLook look;
  auto body = client.get(job_target(job, "/card"), kAnswer);
  if (!body.ok()) {
    look.problem = body.error().message;
    return look;
  }
  auto card = read_reply<api::Card>(*body);
  if (!card.ok()) {
    look.problem = card.error().message;
    return look;
  }
  look.card = std::move(*card);
  look.json = std::move(*body);
  return look;
}

CardLook await_card(const CoordinatorClient& client, const std::string& job, const Clock& clock,
                    const std::function<bool()>& asked_to_end) {
  CardWait wait(clock.monotonic());
  while (!wait.take(look_at_card(client, job), clock.monotonic()) && !asked_to_end()) {
    std::this_thread::sleep_for(kPoll);
  }
  return wait.last();
}

std::string no_card_text(const CardLook& look, const std::string& job) {
  const std::string looked =
      "Looked for in Python processes: steps of torch's optimizers, of DeepSpeed's engine, of Megatron-LM's "
      "train_step, "
      "and of transformers, Lightning and accelerate";
  if (look.card) return "no training step of " + job + " was seen, so there is no card. " + looked;
  return "no process of " + job + " was seen to train, so there is no card (" + look.problem + "). " + looked +
         ". Python's -E and -I switch this off, and so does an environment of its own that a launcher sets";
}

Status write_card(const std::string& directory, const CardLook& look, const std::string& text) {
  constexpr mode_t kMode = 0666;  // less the mask
  TRIMTAB_TRY_STATUS(check_card_directory(directory));
  const std::string json = look.json + (look.json.ends_with('\n') ? "" : "\n");
  TRIMTAB_TRY_STATUS(write_durably(directory + "/card.json", json, kMode));
  return write_durably(directory + "/card.txt", text, kMode);
}

}  // namespace trimtab::cli
