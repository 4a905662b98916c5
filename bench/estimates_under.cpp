// estimates_under QUESTIONS: for each line of constants on standard input (a JSON object of names and values), a line
// of seconds a step, one for each question of the file. A question that is refused has 0.

#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "estimates/constants.hpp"
#include "estimates/request.hpp"

namespace {

using nlohmann::json;
using trimtab::estimates::Constants;

#define NAMED(name) \
  { #name, &Constants::name }

const std::map<std::string, double Constants::*>& fitted() {
  static const std::map<std::string, double Constants::*> kNames = {
      NAMED(ampere_product),       NAMED(hopper_product),    NAMED(blackwell_product), NAMED(product_depth),
      NAMED(ampere_attention),     NAMED(hopper_attention),  NAMED(newest_attention),  NAMED(attention_backward),
      NAMED(attention_length),     NAMED(eager_moved),       NAMED(fused_moved),       NAMED(compiled_moved),
      NAMED(nvlink_share),         NAMED(network_share),     NAMED(infiniband_loss),   NAMED(roce_loss),
      NAMED(collective_latency_s), NAMED(network_latency_s), NAMED(hidden_share),      NAMED(hidden_tensor),
      NAMED(overlap_loss),         NAMED(step_overhead_s),   NAMED(straggling)};
  return kNames;
}

int refuse(const std::string& message) {
  std::cerr << "estimates_under: " << message << "\n";
  return 2;
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return refuse("expected one file of questions");
  std::ifstream file(words[1]);
  if (!file) return refuse(std::string("cannot read ") + words[1]);
  std::vector<trimtab::Result<trimtab::estimates::Request>> requests;
  std::string line;
  while (std::getline(file, line)) requests.push_back(trimtab::estimates::parse_request(line, "question"));
  while (std::getline(std::cin, line)) {
    Constants constants;
    const json changes = json::parse(line, nullptr, false);
    if (!changes.is_object()) return refuse("expected a JSON object of constants");
    for (const auto& [name, value] : changes.items()) {
      const auto found = fitted().find(name);
      if (found == fitted().end() || !value.is_number()) return refuse("no constant to fit: " + name);
      constants.*(found->second) = value.get<double>();
    }
    for (const auto& request : requests) {
      const double seconds =
          request.ok() ? trimtab::estimates::estimate(request->machine, request->shape, request->plan, constants).step_s
                       : 0;
      std::cout << seconds << ' ';
    }
    std::cout << std::endl;  // the caller waits for it
  }
  return 0;
}
