#include "published_vectors.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace trimtab::tuner::h3t::test {
namespace {

using Json = nlohmann::json;

const Json& vectors() {
  static const Json json = [] {
    const std::string path = TRIMTAB_SOURCE_DIR "/tests/tuner/h3t/vectors.json";
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    return Json::parse(file);
  }();
  return json;
}

// A whole number, however it is written.
std::int64_t whole(const Json& in, const std::string& name) {
  const double value = in.at(name).get<double>();
  if (value != static_cast<double>(static_cast<std::int64_t>(value))) throw std::runtime_error(name + " is not whole");
  return static_cast<std::int64_t>(value);
}

LayerProfile read_layer(const Json& in) {
  LayerProfile layer;
  layer.optimizer_step = whole(in, "optimizer_step");
  layer.forward_no_grad = whole(in, "forward_no_grad");
  layer.forward_with_grad = whole(in, "forward_with_grad");
  layer.backward = whole(in, "backward");
  layer.prefetch_hidden = whole(in, "prefetch_hidden_state");
  layer.offload_hidden = whole(in, "offload_hidden_state");
  layer.prefetch_parameters = whole(in, "prefetch_parameter");
  layer.gather_parameters = whole(in, "gather_parameter");
  layer.scatter_gradients = whole(in, "scatter_gradient");
  layer.offload_gradients = whole(in, "offload_gradient");
  layer.input = whole(in, "input_tensor");
  layer.partitioned_parameters = whole(in, "partitioned_parameter");
  layer.gathered_parameters = whole(in, "gathered_parameter");
  layer.partitioned_gradients = whole(in, "partitioned_gradient");
  layer.gathered_gradients = whole(in, "gathered_gradient");
  layer.no_grad = {whole(in, "forward_no_grad_delta"), whole(in, "forward_no_grad_peak")};
  layer.with_grad = {whole(in, "forward_with_grad_delta"), whole(in, "forward_with_grad_peak")};
  layer.backward_change = {whole(in, "backward_delta"), whole(in, "backward_peak")};
  return layer;
}

std::vector<LayerProfile> read_layers(const Json& in) {
  std::vector<LayerProfile> layers;
  for (const Json& layer : in.at("layers")) layers.push_back(read_layer(layer));
  return layers;
}

Switching read_switches(const Json& in) {
  Switching switching;
  for (const Json& of : in.at("switches")) {
    const auto on = [&of](std::size_t index) { return of.at(index).get<int>() == 1; };
    switching.push_back({of.at(0).get<int>() == 3, on(1), on(2), on(3), on(4), on(5), on(6)});
  }
  return switching;
}

Fabric read_fabric(const Json& in) {
  return in.at("nvlink").get<bool>() ? Fabric::kNvlink : Fabric::kPcie;
}

}  // namespace

const std::vector<SimulatedStep>& simulated_steps() {
  static const std::vector<SimulatedStep> all = [] {
    std::vector<SimulatedStep> steps;
    for (const Json& in : vectors().at("sim")) {
      steps.push_back({read_fabric(in), read_layers(in), read_switches(in), whole(in, "runtime"), whole(in, "peak")});
    }
    return steps;
  }();
  return all;
}

const std::vector<EnumeratedCase>& enumerated_cases() {
  static const std::vector<EnumeratedCase> all = [] {
    std::vector<EnumeratedCase> cases;
    for (const Json& in : vectors().at("brute")) {
      cases.push_back({read_fabric(in), read_layers(in), whole(in, "limit"), whole(in, "optimum_synchronised"),
                       whole(in, "optimum_all"), whole(in, "feasible_synchronised"), whole(in, "feasible_all"),
                       whole(in, "peer_dp"), whole(in, "peer_greedy"), whole(in, "peer_dp_peak"),
                       whole(in, "peer_greedy_peak")});
    }
    return cases;
  }();
  return all;
}

const std::vector<LongerCase>& longer_cases() {
  static const std::vector<LongerCase> all = [] {
    std::vector<LongerCase> cases;
    for (const Json& in : vectors().at("dp")) {
      cases.push_back({read_fabric(in), read_layers(in), whole(in, "limit"), whole(in, "best_found_synchronised"),
                       in.at("exact").get<bool>(), whole(in, "peak"), read_switches(in)});
    }
    return cases;
  }();
  return all;
}

}  // namespace trimtab::tuner::h3t::test
