#include "chains.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace trimtab::tuner::oases::test {
namespace {

using Json = nlohmann::json;

Doubles flat(const Json& rows) {
  Doubles all;
  for (const Json& row : rows) {
    for (const Json& value : row) all.push_back(value.get<double>());
  }
  return all;
}

std::int32_t index_of(const Chain& chain, std::int32_t degree) {
  const auto found = std::find(chain.degrees.begin(), chain.degrees.end(), degree);
  return static_cast<std::int32_t>(found - chain.degrees.begin());
}

Vector read(const Json& in) {
  Vector vector;
  Chain& chain = vector.chain;
  chain.degrees = in.at("degrees").get<std::vector<std::int32_t>>();
  chain.nodes = static_cast<std::int32_t>(in.at("fwd").size());
  chain.forward = flat(in.at("fwd"));
  chain.backward = flat(in.at("bwd"));
  chain.communication = flat(in.at("comm"));
  chain.memory = flat(in.at("mem"));
  chain.buffer = in.at("runtime_mem").get<Doubles>();
  chain.limit = in.at("limit").get<double>();
  const char* const names[] = {"paper_eq3_5", "as_coded"};
  for (int o = 0; o < 2; ++o) {
    const Json& answer = in.at(names[o]);
    vector.optimum[o] = answer.at("optimum").get<double>();
    for (const std::int32_t degree : answer.at("argmin").get<std::vector<std::int32_t>>()) {
      vector.argmin[o].push_back(index_of(chain, degree));
    }
    vector.memory[o] = answer.at("memory").get<double>();
  }
  return vector;
}

double number(Random& random, double low, double high, bool whole) {
  const double value = low + (high - low) * random.uniform();
  return whole ? std::round(value) : value;
}

void add_node(Random& random, const RandomShape& shape, double size, Chain& chain) {
  double forward = number(random, 900, 1000, shape.whole) * size;
  double communication = number(random, 300, 700, shape.whole) * size;
  double states = number(random, 8e4, 1e5, shape.whole) * size;
  const double kept = std::round(2e4 * size);
  for (std::int32_t j = 0; j < shape.degrees; ++j) {
    const auto as = [&shape](double value) { return shape.whole ? std::round(value) : value; };
    chain.forward.push_back(as(forward));
    chain.backward.push_back(as(forward * (1.5 + random.uniform())));
    chain.communication.push_back(as(communication));
    chain.memory.push_back(std::round(states + kept * std::ldexp(1.0, j) / 4));
    forward *= 0.95 + 0.1 * random.uniform();
    communication *= 1.5 + 0.5 * random.uniform();
    states /= 2;
  }
}

}  // namespace

std::vector<Vector> vectors() {
  std::ifstream in(TRIMTAB_OASES_DATA "/vectors.json");
  std::vector<Vector> all;
  for (const Json& one : Json::parse(in)) all.push_back(read(one));
  return all;
}

Chain random_chain(Random& random, const RandomShape& shape) {
  Chain chain;
  chain.nodes = shape.nodes;
  for (std::int32_t j = 0; j < shape.degrees; ++j) {
    chain.degrees.push_back(1 << j);
    chain.buffer.push_back(static_cast<double>(random.between(1000, 20000)));
  }
  for (std::int32_t n = 0; n < shape.nodes; ++n) {
    add_node(random, shape, shape.uneven ? std::exp2(2 * random.uniform() - 1) : 1 + n % 2, chain);
  }
  double least = 0, most = 0;
  for (std::int32_t n = 0; n < shape.nodes; ++n) {
    const auto first = chain.memory.begin() + n * shape.degrees;
    const auto [low, high] = std::minmax_element(first, first + shape.degrees);
    least += *low;
    most += *high;
  }
  chain.limit = std::round(least + (most - least) * (0.05 + 0.8 * random.uniform()) + 10000);
  return chain;
}

ChainAnswer solve(const Chain& chain, Objective objective, std::int32_t most_options) {
  const Terms terms = terms_of(chain, objective);
  ChainProblem problem;
  problem.nodes = chain.nodes;
  problem.options = chain.options();
  problem.node = terms.node;
  problem.edge = terms.edge;
  problem.memory = chain.memory;
  problem.buffer = chain.buffer;
  problem.limit = chain.limit;
  problem.most_options = most_options;
  return LabelSetting().solve(problem);
}

bool allowed(const Choice& choice, std::int32_t most_options) {
  if (most_options == 0) return true;
  std::set<std::int32_t> used;
  for (std::size_t n = 0; n < choice.size(); ++n) {
    if (n > 0 && choice[n] == choice[n - 1]) continue;
    if (!used.insert(choice[n]).second) return false;
  }
  return static_cast<std::int32_t>(used.size()) <= most_options;
}

std::optional<double> enumerated(const Chain& chain, Objective objective, std::int32_t most_options) {
  std::optional<double> best;
  Choice choice(static_cast<std::size_t>(chain.nodes), 0);
  while (true) {
    if (allowed(choice, most_options) && memory_bytes(chain, choice) <= chain.limit) {
      const double ms = step_ms(chain, choice, objective);
      if (!best || ms < *best) best = ms;
    }
    std::size_t n = 0;
    while (n < choice.size() && ++choice[n] == chain.options()) choice[n++] = 0;
    if (n == choice.size()) return best;
  }
}

Choice deployed(const Chain& chain, const Choice& choice) {
  std::vector<std::int32_t> count(chain.degrees.size(), 0);
  for (const std::int32_t degree : choice) ++count[degree];
  std::vector<std::int32_t> order(chain.degrees.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return count[a] > count[b]; });
  if (order.size() < 2 || count[order[1]] == 0) return choice;
  const std::int32_t smaller = std::min(order[0], order[1]);
  const std::int32_t larger = std::max(order[0], order[1]);
  const std::int32_t cut = count[smaller] / 2 * 2;
  Choice run(choice.size(), larger);
  std::fill(run.begin(), run.begin() + cut, smaller);
  return run;
}

}  // namespace trimtab::tuner::oases::test
