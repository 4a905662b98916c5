#pragma once

// A job's verdict card (GET /v1/jobs/NAME/card, DIR/card.json): where its steps go, and what would make them shorter.
// schema/json/card.schema.json is made from this. docs/card.md says on what each finding rests.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/api/fields.hpp"
#include "schema/api/words.hpp"

namespace trimtab::api {

enum class CardVersion { k1 };
[[nodiscard]] std::span<const std::string_view> words_of(CardVersion version);

enum class FindingName {
  kSlowRank,
  kSlowData,
  kSmallMicrobatch,
  kSlowLink,
  kEverythingRecomputed,
  kLaunchBound,
  kExposedCommunication,
  kMemoryLeft,
  kHealthy,
};
[[nodiscard]] std::span<const std::string_view> words_of(FindingName name);

struct CardStepTime {
  double median = 0;
  double p90 = 0;

  static constexpr void fields(auto&& visit) {
    visit("median", &CardStepTime::median, Presence::kAlways, "");
    visit("p90", &CardStepTime::p90, Presence::kAlways, "Nine of ten steps take no longer.");
  }
};

// Of a step's time, means over ranks of medians over steps. They add up to 1 where the ranks tell their parts.
struct CardShares {
  double computation = 0;
  double exposed_communication = 0;
  double launch_bound = 0;
  double data = 0;
  double idle = 0;
  double other = 0;

  static constexpr void fields(auto&& visit) {
    visit("computation", &CardShares::computation, Presence::kAlways, "Forward, backward and optimizer.");
    visit("exposed_communication", &CardShares::exposed_communication, Presence::kAlways,
          "Waiting in collectives, for the link and for slower ranks.");
    visit("launch_bound", &CardShares::launch_bound, Presence::kAlways,
          "The device idles while the host hands out kernels; 0 without a device.");
    visit("data", &CardShares::data, Presence::kAlways, "Waiting for the next batch.");
    visit("idle", &CardShares::idle, Presence::kAlways, "The device idles for another reason; 0 without a device.");
    visit("other", &CardShares::other, Presence::kAlways, "What is in none of the rest: logging, loss.item().");
  }
};

// A kind of communication.
struct CardCommunication {
  std::string kind;
  double exposed = 0;
  double hidden = 0;

  static constexpr void fields(auto&& visit) {
    visit("kind", &CardCommunication::kind, Presence::kAlways, "\"all_reduce\", \"send_recv\", ...");
    visit("exposed", &CardCommunication::exposed, Presence::kAlways, "Of a step's time.");
    visit("hidden", &CardCommunication::hidden, Presence::kAlways, "Likewise: behind computation.");
  }
};

// Of the rank that has the least left. What is not known is null.
struct CardMemory {
  std::optional<std::int64_t> used_bytes;
  std::optional<std::int64_t> total_bytes;
  std::optional<std::int64_t> left_bytes;

  static constexpr void fields(auto&& visit) {
    visit("used_bytes", &CardMemory::used_bytes, Presence::kUsual, "At its peak.");
    visit("total_bytes", &CardMemory::total_bytes, Presence::kUsual, "");
    visit("left_bytes", &CardMemory::left_bytes, Presence::kUsual, "");
  }
};

// Ranks on devices of one kind.
struct CardDevices {
  std::string name;
  std::int64_t ranks = 0;
  std::vector<std::string> limits;

  static constexpr void fields(auto&& visit) {
    visit("name", &CardDevices::name, Presence::kAlways, "As the driver says, or the processor's. Empty: not told.");
    visit("ranks", &CardDevices::ranks, Presence::kAlways, "");
    visit("limits", &CardDevices::limits, Presence::kIfAny,
          "What is not measured on these, or not of whole devices, and what works all the same.");
  }
};

struct CardFinding {
  Word<FindingName> name;
  std::optional<std::int64_t> rank;
  double gain = 0;
  double low = 0;
  double high = 0;
  std::string advice;
  std::string why;

  static constexpr void fields(auto&& visit) {
    visit("name", &CardFinding::name, Presence::kNeeded, "");
    visit("rank", &CardFinding::rank, Presence::kIfAny, "The one that it is about.");
    visit("gain", &CardFinding::gain, Presence::kAlways, "The share of the step's time that would be saved.");
    visit("low", &CardFinding::low, Presence::kAlways, "Of its 95 % interval.");
    visit("high", &CardFinding::high, Presence::kAlways, "Of its 95 % interval.");
    visit("advice", &CardFinding::advice, Presence::kAlways, "What to do, in the framework's words.");
    visit("why", &CardFinding::why, Presence::kAlways, "What it rests on.");
  }
};

struct Card {
  Word<CardVersion> schema = CardVersion::k1;
  std::string job;
  std::string recorded_by;
  CardStepTime step_ms;
  std::int64_t ranks = 0;
  std::int64_t steps = 0;
  std::optional<double> samples_per_s;
  std::optional<double> tokens_per_s;
  std::optional<double> mfu;
  std::optional<double> peak_flops;
  CardShares shares;
  std::vector<CardCommunication> communication;
  CardMemory memory;
  std::vector<CardDevices> devices;
  std::vector<CardFinding> findings;
  std::vector<std::string> notes;

  static constexpr void fields(auto&& visit) {
    visit("schema", &Card::schema, Presence::kAlways, "");
    visit("job", &Card::job, Presence::kAlways, "");
    visit("recorded_by", &Card::recorded_by, Presence::kIfAny,
          "Another profiler, whose traces the card is of: \"PyTorch Profiler\" or \"Nsight Systems\".");
    visit("step_ms", &Card::step_ms, Presence::kAlways, "0: no step has been told.");
    visit("ranks", &Card::ranks, Presence::kAlways, "That told steps.");
    visit("steps", &Card::steps, Presence::kAlways, "That the card is of, warm-up left out.");
    visit("samples_per_s", &Card::samples_per_s, Presence::kIfAny, "Of all ranks together.");
    visit("tokens_per_s", &Card::tokens_per_s, Presence::kIfAny, "Of all ranks together.");
    visit("mfu", &Card::mfu, Presence::kIfAny, "6 x parameters x tokens/s over peak_flops.");
    visit("peak_flops", &Card::peak_flops, Presence::kIfAny, "Of all ranks' devices together, dense, by data sheet.");
    visit("shares", &Card::shares, Presence::kAlways, "Of a step's time.");
    visit("communication", &Card::communication, Presence::kIfAny,
          "What shares.exposed_communication is made of, the largest first. Of traces alone.");
    visit("memory", &Card::memory, Presence::kAlways, "Of the rank that has the least left.");
    visit("devices", &Card::devices, Presence::kIfAny, "What the ranks run on, the most of them first.");
    visit("findings", &Card::findings, Presence::kAlways, "Best first. Never empty once there are steps enough.");
    visit("notes", &Card::notes, Presence::kAlways, "What is missing, or to be known.");
  }
};

// Indented, for people.
template <>
[[nodiscard]] std::string to_json(const Card& card);
// Refuses another version than "trimtab.card/1".
template <>
[[nodiscard]] Result<Card> parse(std::string_view json, std::string_view source);

}  // namespace trimtab::api
