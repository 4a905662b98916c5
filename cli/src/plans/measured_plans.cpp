#include "plans/measured_plans.hpp"

#include <cmath>

#include "base/text_parts.hpp"
#include "files.hpp"
#include "json_text.hpp"
#include "plans/priced_inputs.hpp"
#include "schema/documents/document_text.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

constexpr double kNoise = 0.01;  // standard error of a step that somebody measured, relative

Result<tuner::Observation> observation_of(const json& line, const std::string& source, const tuner::CostModel& model) {
  const auto step = line.is_object() ? line.find("step_s") : line.end();
  const bool told = line.is_object() && step != line.end() && step->is_number() && line.contains("plan");
  const double measured_ms = told ? 1e3 * step->get<double>() : 0;
  if (!(measured_ms > 0) || !std::isfinite(measured_ms)) {
    return bad_input(source + ": expected {\"step_s\": seconds, \"plan\": a plan as in plan.json}");
  }
  tuner::Observation seen;
  TRIMTAB_TRY(seen.plan,
              DocumentText<Plan>(line["plan"].dump(-1, ' ', false, json::error_handler_t::replace), source).read());
  TRIMTAB_TRY_STATUS(check_plan(source, seen.plan, model));
  seen.prediction = model.evaluate(seen.plan);
  if (!seen.prediction.priced()) {
    return bad_input(source +
                     ": this plan has no price, so its step teaches nothing. Measure the costs that it needs "
                     "(trimtab profile), or leave it out");
  }
  seen.measured_ms = measured_ms;
  seen.measured_sigma_ms = kNoise * measured_ms;
  return seen;
}

}  // namespace

Result<std::unique_ptr<tuner::CostModel>> corrected_by(const std::string& path, const tuner::CostModel& model) {
  const auto* native = dynamic_cast<const tuner::NativeCostModel*>(&model);
  if (native == nullptr) {
    return bad_input("--measured corrects the native cost model, not " + std::string(model.name()));
  }
  TRIMTAB_TRY(const std::string text, read_file(path));
  std::vector<tuner::Observation> seen;
  std::string_view rest = text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = take_line(rest);
    if (blank_parted(line).empty()) continue;
    const std::string source = path + ":" + std::to_string(number);
    TRIMTAB_TRY(tuner::Observation one, observation_of(json::parse(line, nullptr, false), source, model));
    seen.push_back(std::move(one));
  }
  if (seen.empty()) return bad_input(path + ": expected a measured step a line, found none");
  auto calibration = tuner::calibrate(native->table(), seen, {});
  std::unique_ptr<tuner::CostModel> corrected = std::make_unique<tuner::NativeCostModel>(native->table(), calibration);
  return corrected;
}

}  // namespace trimtab::cli
