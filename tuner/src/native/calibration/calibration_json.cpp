#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "tuner/calibration.hpp"

namespace trimtab::tuner {
namespace {

using Json = nlohmann::json;

constexpr const char* kSchema = "trimtab.calibration/1";

Json factor_json(const Factor& factor) {
  return {{"value", factor.value}, {"log_sigma", factor.log_sigma}};
}

constexpr std::array<const char*, kCommunicationClasses> kClasses{"collectives", "gradients", "transfers"};
constexpr std::size_t kNamedCorrelations = 3;   // that have fields of their own
constexpr std::size_t kClassCorrelations = 12;  // of classes with each other and with the three before
constexpr std::size_t kLaterCorrelations = 13;  // of overlap and bubble
constexpr std::size_t kLatestCorrelations = 8;  // of launching

constexpr std::size_t kBeforeLatest = kNamedCorrelations + kClassCorrelations + kLaterCorrelations;

Json classes_json(const std::array<Factor, kCommunicationClasses>& classes) {
  Json all = Json::object();
  for (std::size_t k = 0; k < classes.size(); ++k) all[kClasses[k]] = factor_json(classes[k]);
  return all;
}

Json correlations_json(const Calibration& calibration, std::size_t first, std::size_t count) {
  const auto begin = calibration.correlations.begin() + static_cast<std::ptrdiff_t>(first);
  return Json(std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(count)));
}

static_assert(kNamedCorrelations + kClassCorrelations + kLaterCorrelations + kLatestCorrelations ==
              std::tuple_size_v<decltype(Calibration::correlations)>);

// How unsure one factor was of all communication, as the product of the common factor and a class's; 0.8 and 0.6 as
// where nothing is known.
void share_out(Factor& common, std::array<Factor, kCommunicationClasses>& classes) {
  for (Factor& one : classes) one.log_sigma = 0.6 * common.log_sigma;
  common.log_sigma *= 0.8;
}

Json operators_json(const std::map<std::string, Factor>& operators) {
  Json all = Json::object();
  for (const auto& [key, factor] : operators) all[key] = factor_json(factor);
  return all;
}

// Reads numbers of one object; the first that is absent, no number or out of range is remembered by its path.
class Numbers {
 public:
  Numbers(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  double take(const char* name, double least, double most = std::numeric_limits<double>::max()) {
    const Json* const found = find(name);
    if (found != nullptr && is_within(*found, least, most)) return found->get<double>();
    refuse(name);
    return 0;
  }

  Factor factor(const char* name) {
    Factor factor;
    inside(name, [&](Numbers& numbers, const Json&) {
      factor = {numbers.take("value", 1e-9), numbers.take("log_sigma", 0)};
    });
    return factor;
  }

  std::map<std::string, Factor> factors(const char* name) {
    std::map<std::string, Factor> all;
    inside(name, [&](Numbers& numbers, const Json& object) {
      for (const auto& [key, unread] : object.items()) all[key] = numbers.factor(key.c_str());
    });
    return all;
  }

  std::map<std::string, double> positives(const char* name) {
    std::map<std::string, double> all;
    inside(name, [&](Numbers& numbers, const Json& object) {
      for (const auto& [key, unread] : object.items()) all[key] = numbers.take(key.c_str(), 1e-9);
    });
    return all;
  }

  // `count` of `into` from `first` on, none beyond -most to most.
  template <std::size_t kSize>
  void list(const char* name, std::size_t first, std::size_t count, double most, std::array<double, kSize>& into) {
    const Json* const found = find(name);
    if (found == nullptr || !found->is_array() || found->size() != count) return refuse(name);
    for (std::size_t i = 0; i < count; ++i) {
      const Json& one = (*found)[i];
      if (!is_within(one, -most, most)) return refuse(name);
      into[first + i] = one.get<double>();
    }
  }

  [[nodiscard]] const std::string& broken() const { return broken_; }

 private:
  static bool is_within(const Json& value, double least, double most) {
    return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= least &&
           value.get<double>() <= most;
  }

  [[nodiscard]] const Json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

  void refuse(const char* name) {
    if (broken_.empty()) broken_ = path_ + name;
  }

  // read(numbers, object) of an object inside of this one.
  template <typename Read>
  void inside(const char* name, Read&& read) {
    const Json* const found = find(name);
    if (found == nullptr || !found->is_object()) return refuse(name);
    Numbers numbers(*found, path_ + name + ".");
    read(numbers, *found);
    if (broken_.empty()) broken_ = numbers.broken_;
  }

  const Json& object_;
  std::string path_;
  std::string broken_;
};

}  // namespace

std::string to_json(const Calibration& calibration) {
  Json json{{"schema", kSchema},
            {"computation", factor_json(calibration.computation)},
            {"communication", factor_json(calibration.communication)},
            {"classes", classes_json(calibration.classes)},
            {"memory", factor_json(calibration.memory)},
            {"fixed_ms", calibration.fixed_ms},
            {"fixed_sigma_ms", calibration.fixed_sigma_ms},
            {"correlation_computation_communication", calibration.correlations[0]},
            {"correlation_computation_fixed", calibration.correlations[1]},
            {"correlation_communication_fixed", calibration.correlations[2]},
            {"correlations_of_classes", correlations_json(calibration, kNamedCorrelations, kClassCorrelations)},
            {"overlap", factor_json(calibration.overlap)},
            {"bubble", factor_json(calibration.bubble)},
            {"correlations_of_overlap_and_bubble",
             correlations_json(calibration, kNamedCorrelations + kClassCorrelations, kLaterCorrelations)},
            {"residual_sigma", calibration.residual_sigma},
            {"memory_sigma", calibration.memory_sigma},
            {"observations", calibration.observations},
            {"left_out_error", calibration.left_out_error},
            {"left_out_error_of_costs", calibration.left_out_error_of_costs},
            {"operators", operators_json(calibration.operators)},
            {"corrections", calibration.corrections}};
  // Where nothing was learnt of it, documents are as they were.
  const auto latest = calibration.correlations.begin() + kBeforeLatest;
  const bool alone = std::all_of(latest, calibration.correlations.end(), [](double of) { return of == 0; });
  if (calibration.launching.value != 1 || !alone) {
    json["launching"] = factor_json(calibration.launching);
    json["correlations_of_launching"] = correlations_json(calibration, kBeforeLatest, kLatestCorrelations);
  }
  return json.dump();
}

Result<Calibration> parse_calibration(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return bad_input("calibration: needs a JSON object, found something else");
  if (!json.contains("schema") || json["schema"] != kSchema) {
    return bad_input(std::string("calibration: schema must be ") + kSchema);
  }
  constexpr double kAny = -1e300;
  constexpr double kCorrelation = 1.001;  // rounding
  Numbers numbers(json, "calibration.");
  Calibration calibration;
  calibration.computation = numbers.factor("computation");
  calibration.communication = numbers.factor("communication");
  calibration.memory = numbers.factor("memory");
  calibration.fixed_ms = numbers.take("fixed_ms", kAny);
  calibration.fixed_sigma_ms = numbers.take("fixed_sigma_ms", 0);
  calibration.correlations = {};
  const std::array<double, kNamedCorrelations> named{
      numbers.take("correlation_computation_communication", -kCorrelation, kCorrelation),
      numbers.take("correlation_computation_fixed", -kCorrelation, kCorrelation),
      numbers.take("correlation_communication_fixed", -kCorrelation, kCorrelation)};
  std::ranges::copy(named, calibration.correlations.begin());
  calibration.residual_sigma = numbers.take("residual_sigma", 0);
  calibration.observations = static_cast<int>(numbers.take("observations", 0));
  // Documents from before these were learnt lack them.
  if (json.contains("left_out_error")) calibration.left_out_error = numbers.take("left_out_error", 0);
  if (json.contains("left_out_error_of_costs")) {
    calibration.left_out_error_of_costs = numbers.take("left_out_error_of_costs", 0);
  }
  if (json.contains("memory_sigma")) calibration.memory_sigma = numbers.take("memory_sigma", 0);
  if (json.contains("classes")) {
    const auto classes = numbers.factors("classes");
    for (std::size_t k = 0; k < kCommunicationClasses; ++k) {
      const auto found = classes.find(kClasses[k]);
      if (found != classes.end()) calibration.classes[k] = found->second;
    }
    numbers.list("correlations_of_classes", kNamedCorrelations, kClassCorrelations, kCorrelation,
                 calibration.correlations);
  } else {
    share_out(calibration.communication, calibration.classes);
  }
  if (json.contains("overlap")) calibration.overlap = numbers.factor("overlap");
  if (json.contains("bubble")) calibration.bubble = numbers.factor("bubble");
  if (json.contains("correlations_of_overlap_and_bubble")) {
    numbers.list("correlations_of_overlap_and_bubble", kNamedCorrelations + kClassCorrelations, kLaterCorrelations,
                 kCorrelation, calibration.correlations);
  }
  if (json.contains("launching")) {
    calibration.launching = numbers.factor("launching");
    numbers.list("correlations_of_launching", kBeforeLatest, kLatestCorrelations, kCorrelation,
                 calibration.correlations);
  }
  if (json.contains("operators")) calibration.operators = numbers.factors("operators");
  if (json.contains("corrections")) calibration.corrections = numbers.positives("corrections");
  if (!numbers.broken().empty()) return bad_input(numbers.broken() + ": needs a number in its range");
  return calibration;
}

}  // namespace trimtab::tuner
