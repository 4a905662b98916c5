// What ranks told of a job, out of a file of JSON lines, as the job's card. A line is a frame of the agent's socket
// (docs/protocols.md: "step", "facts") with the "rank" that sent it, or {"links": [...]} as probes found them.
//
//   card_of_frames WORLD_SIZE FILE

#include <fstream>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "base/numbers.hpp"
#include "card/card_fold.hpp"

namespace {

using nlohmann::json;
using namespace trimtab;
using namespace trimtab::coordinator;

CardStep step_of(const json& frame) {
  CardStep step;
  step.step = frame.at("step");
  step.wall_ns = frame.at("wall_ns");
  step.cpu_ns = frame.value("cpu_ns", 0LL);
  step.microbatches = frame.value("microbatches", 0LL);
  step.count = frame.value("count", 0LL);
  step.tokens = frame.value("tokens", 0LL);
  step.preparations = frame.value("preparations", 0LL);
  step.peak_bytes = frame.value("peak_bytes", 0LL);
  if (!frame.contains("parts")) return step;
  const json& told = frame.at("parts");
  CardParts parts;
  parts.data_ns = told.value("data_ns", 0LL);
  parts.forward_ns = told.value("forward_ns", 0LL);
  parts.backward_ns = told.value("backward_ns", 0LL);
  parts.recompute_ns = told.value("recompute_ns", 0LL);
  parts.optimizer_ns = told.value("optimizer_ns", 0LL);
  parts.communication_ns = told.value("communication_ns", 0LL);
  parts.stolen_ns = told.value("stolen_ns", -1LL);
  parts.aside_ns = told.value("aside_ns", 0LL);
  step.parts = parts;
  return step;
}

std::vector<CardLink> links_of(const json& told) {
  std::vector<CardLink> links;
  for (const json& one : told) {
    links.push_back({one.at("node"), one.at("peer"), one.at("bytes_per_s"), one.value("spread", 0.0),
                     one.value("earlier_bytes_per_s", 0.0)});
  }
  return links;
}

void tell(CardFold& fold, const json& frame) {
  if (!frame.contains("type") && frame.contains("links")) return fold.links(links_of(frame.at("links")));
  const auto rank = frame.at("rank").get<std::int32_t>();
  if (frame.at("type") == "step") return fold.step(rank, step_of(frame));
  if (frame.at("type") == "hello") return fold.connected(rank, frame.value("node", ""), frame.value("launch", 1LL));
  if (frame.at("type") != "facts") return;
  const auto facts = api::parse<api::RankFacts>(frame.dump());
  if (facts.ok()) fold.facts(rank, *facts);
}

}  // namespace

int main(int count, char** words) {
  const auto world_size = count == 3 ? parse_number<std::int32_t>(words[1]) : std::nullopt;
  if (!world_size) {
    std::cerr << "usage: card_of_frames WORLD_SIZE FILE\n";
    return 2;
  }
  std::ifstream file(words[2]);
  CardFold fold("job", *world_size);
  for (std::string line; std::getline(file, line);) {
    const json frame = json::parse(line, nullptr, false);
    if (!frame.is_discarded()) tell(fold, frame);
  }
  std::cout << api::to_json(fold.card()) << "\n";
  return 0;
}
