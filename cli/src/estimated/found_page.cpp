#include "estimated/found_page.hpp"

#include <algorithm>
#include <cmath>

#include "base/numbers.hpp"
#include "charts/svg.hpp"
#include "estimated/page_script.hpp"
#include "json_text.hpp"

namespace trimtab::cli {

namespace {

using estimates::PricedPlan;
using estimates::Recomputed;
using estimates::UniformPlan;
using nlohmann::json;

constexpr double kGib = 1024.0 * 1024 * 1024;

// Four digits: the page carries thousands of plans.
double short_number(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

std::string recompute_kind(const UniformPlan& plan) {
  switch (plan.recomputed) {
    case Recomputed::kNothing:
      return "nothing";
    case Recomputed::kAttentionCore:
      return "attention core";
    case Recomputed::kActivations:
      return "norms, activations";
    case Recomputed::kHalfOfProducts:
      return "every second product";
    case Recomputed::kLayer:
      break;
  }
  return plan.recomputed_share < 1 ? "as few layers as fit" : "all layers";
}

// Words of a knob, each by its place.
class Words {
 public:
  std::size_t place(const std::string& word) {
    const auto found = std::ranges::find(words_, word);
    if (found != words_.end()) return static_cast<std::size_t>(found - words_.begin());
    words_.push_back(word);
    return words_.size() - 1;
  }
  [[nodiscard]] const std::vector<std::string>& all() const { return words_; }

 private:
  std::vector<std::string> words_;
};

const std::vector<std::string> kKnobs{"tp", "pp", "vpp", "cp", "microbatch", "sharded", "recomputed"};
const std::vector<std::string> kHeld{"parameters", "gradients", "optimizer states", "activations", "peak of a pass"};

json row_of(const PricedPlan& one, const estimates::ModelShape& shape, Words& sharded, Words& recomputed) {
  const UniformPlan& plan = one.plan;
  const estimates::Estimate& estimate = one.estimate;
  const std::string words = estimates::sharding_words(plan);
  const bool layers = plan.recomputed == Recomputed::kLayer;
  json row = {plan.tensor,
              plan.stages,
              plan.chunks,
              plan.context,
              plan.microbatch,
              sharded.place(words == "-" ? "nothing" : words),
              recomputed.place(recompute_kind(plan)),
              plan.replicas,
              layers ? std::lround(plan.recomputed_share * shape.layers) : 0};
  const estimates::MemoryEstimate& memory = estimate.memory;
  for (const double value : {memory.fits, estimate.step_s, estimate.least_s, estimate.most_s,
                             estimate.tokens_per_s_per_device, estimate.utilization, memory.process / kGib}) {
    row.push_back(short_number(value));
  }
  for (const NamedSeconds& part : named_parts(estimate.parts)) row.push_back(short_number(part.second));
  const estimates::StageMemory& stage = memory.stages[static_cast<std::size_t>(memory.fullest)];
  for (const double bytes : {stage.parameters, stage.gradients, stage.optimizer, stage.activations, stage.peak}) {
    row.push_back(short_number(bytes / kGib));
  }
  return row;
}

json data_of(const FoundPlans& plans) {
  std::vector<std::string> columns = kKnobs;
  for (const char* name : {"dp", "layers", "fits", "step", "least", "most", "tokens", "mfu", "process"}) {
    columns.emplace_back(name);
  }
  std::vector<std::string> parts;
  for (const NamedSeconds& part : named_parts({})) parts.emplace_back(part.first);
  columns.insert(columns.end(), parts.begin(), parts.end());
  columns.insert(columns.end(), kHeld.begin(), kHeld.end());
  Words sharded;
  Words recomputed;
  for (const char* kind : {"nothing", "attention core", "every second product", "as few layers as fit", "all layers"}) {
    recomputed.place(kind);
  }
  json rows = json::array();
  for (const PricedPlan& one : plans.found.plans) {
    rows.push_back(row_of(one, plans.asked.shape, sharded, recomputed));
  }
  for (const PricedPlan& one : plans.found.too_large) {
    rows.push_back(row_of(one, plans.asked.shape, sharded, recomputed));
  }
  return {{"knobs", kKnobs},
          {"columns", columns},
          {"parts", parts},
          {"held", kHeld},
          {"words", {nullptr, nullptr, nullptr, nullptr, nullptr, sharded.all(), recomputed.all()}},
          {"capacity", short_number(static_cast<double>(plans.machine.gpu.memory) / kGib)},
          {"leastChance", plans.options.least_chance},
          {"layers", plans.asked.shape.layers},
          {"plans", rows}};
}

// Within <script> nothing may look like its end.
std::string within_script(std::string text) {
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
    text.replace(at, 1, "\\u003c");
  return text;
}

constexpr std::string_view kBody = R"html(
<div class="knobs" id="knobs"></div>
<p class="dim"><span id="plan"></span>. * stands behind values for which other knobs move, too.
<button id="reset">back to the best</button> <span id="moved"></span></p>
<div class="figures">
<div><b id="step"></b><span class="dim" id="within"></span><br><span class="dim" id="beside"></span></div>
<div><b id="speed"></b><span class="dim">tokens a second for each GPU</span></div>
<div><b id="mfu"></b><span class="dim">MFU</span></div>
<div><b id="bubble"></b><span class="dim">of the step is bubble, or waiting for others</span></div>
<div><b id="gib"></b><span id="chance"></span></div>
</div>
<h2>Where a step's time goes</h2>
<div class="bar" id="time"></div><div class="legend" id="time-legend"></div>
<h2>What the fullest stage's GPU holds</h2>
<div class="bar" id="memory"></div><div class="legend" id="memory-legend"></div>
<h2>The best plan of each tp, pp and cp</h2>
<table id="best"><thead></thead><tbody></tbody></table>
)html";

}  // namespace

std::string found_page(const FoundPlans& plans) {
  const std::string title = plans.asked.shape.name + " on " + std::to_string(plans.machine.devices) + " x " +
                            std::string(plans.machine.gpu.name);
  std::string page = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" + escape(title) +
          "</title>\n<style>" + std::string(kPageStyle) + "</style></head><body>\n<h1>" + escape(title) + "</h1>\n";
  page += "<p class=\"dim\">" + escape(asked_text(plans.asked, plans.machine)) + escape(source_text(plans.asked)) +
          " " + escape(peak_text(plans.asked, plans.machine)) + "</p>\n" + std::string(kBody);
  page += "<script type=\"application/json\" id=\"data\">" + within_script(json_text(data_of(plans))) +
          "</script>\n<script>" + std::string(kPageScript) + "</script>\n</body></html>\n";
  return page;
}

}  // namespace trimtab::cli
