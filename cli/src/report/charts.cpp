#include <algorithm>
#include <cmath>

#include "base/numbers.hpp"
#include "charts/svg.hpp"
#include "report/sections.hpp"

namespace trimtab::cli {

namespace {

constexpr double kLeft = 64;
constexpr double kTop = 34;
constexpr double kWidth = 380;
constexpr double kHeight = 250;

// From numbers to places in the drawing.
struct Scale {
  double low = 0;
  double high = 1;
  double begin = 0;
  double end = 1;
  [[nodiscard]] double operator()(double value) const { return begin + (value - low) / (high - low) * (end - begin); }
};

Scale scale_over(std::vector<double> values, double begin, double end) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double margin = std::max((*high - *low) * 0.12, *high * 0.02 + 1e-9);
  return {std::max(0.0, *low - margin), *high + margin, begin, end};
}

double step_of(const std::vector<double>& values) {
  return values.size() > 1 ? values[1] - values[0] : 1;
}

Svg frame(const char* title, const std::string& description) {
  return {kLeft + kWidth + 14, kTop + kHeight + 42, title, description};
}

void draw_y_axis(Svg& svg, const Scale& y, const std::string& title) {
  const std::vector<double> values = ticks(y.low, y.high, 5);
  for (const double value : values) {
    svg.line(kLeft, y(value), kLeft + kWidth, y(value), "grid");
    svg.text(kLeft - 6, y(value) + 4, tick_label(value, step_of(values)), "small", Anchor::kEnd);
  }
  svg.line(kLeft, kTop, kLeft, kTop + kHeight, "axis");
  svg.line(kLeft, kTop + kHeight, kLeft + kWidth, kTop + kHeight, "axis");
  svg.text(8, 16, title, "small");
}

void draw_x_axis(Svg& svg, const Scale& x, const std::vector<double>& values, const std::string& title) {
  for (const double value : values) {
    svg.text(x(value), kTop + kHeight + 16, tick_label(value, step_of(values)), "small", Anchor::kMiddle);
  }
  svg.text(kLeft + kWidth, kTop + kHeight + 34, title, "small", Anchor::kEnd);
}

struct Point {
  std::string name;
  std::optional<double> before;
  std::optional<double> after;
  Measured measured;
};

std::vector<Point> points_of(const ReportData& report) {
  std::vector<Point> points;
  const auto add = [&](const std::string& name, const ReportRun& run) {
    if (!run.measured || (!run.predicted_ms && !run.predicted_before_ms)) return;
    points.push_back({name, run.predicted_before_ms, run.predicted_ms, *run.measured});
  };
  add("initial plan", report.initial);
  for (const ReportTrial& trial : report.trials) add("trial " + trial.id, trial.run);
  return points;
}

std::string tooltip(const Point& point, double predicted, const char* when) {
  return point.name + ": predicted " + format_ms(predicted) + when + ", measured " + measured_text(point.measured);
}

void draw_scatter_legend(Svg& svg) {
  svg.circle(kLeft + 130, 12, 4.5, "mark-before");
  svg.text(kLeft + 139, 16, "before calibration", "small");
  svg.diamond(kLeft + 262, 12, 5, "mark-after");
  svg.text(kLeft + 271, 16, "after calibration", "small");
}

struct Attempt {
  std::string name;
  std::optional<Measured> measured;
  bool incumbent = false;
  bool failed = false;
  bool changed = false;  // the machine, since the attempt before
};

std::vector<Attempt> attempts_of(const ReportData& report) {
  std::vector<Attempt> attempts{{"initial plan", report.initial.measured, true, false}};
  for (std::size_t i = 0; i < report.trials.size(); ++i) {
    const ReportTrial& trial = report.trials[i];
    attempts.push_back({"trial " + trial.id + " (" + trial.told.state.text() + ")", trial.run.measured,
                        trial.told.state == TrialState::kAdopted, trial.told.state == TrialState::kFailed,
                        !changes_before(report, i).empty()});
  }
  return attempts;
}

using Line = std::vector<std::pair<double, double>>;

// The incumbent's time over the trials, as a staircase for each machine that it was measured on.
std::vector<Line> staircases(const std::vector<Attempt>& attempts, const Scale& x, const Scale& y) {
  std::vector<Line> lines(1);
  const auto end_at = [&](double place) {
    if (!lines.back().empty()) lines.back().emplace_back(x(place), lines.back().back().second);
  };
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    const double place = static_cast<double>(i);
    if (attempts[i].changed) {
      end_at(place - 0.5);
      lines.emplace_back();
    }
    if (!attempts[i].incumbent || !attempts[i].measured) continue;
    end_at(place);
    lines.back().emplace_back(x(place), y(attempts[i].measured->mean));
  }
  end_at(static_cast<double>(attempts.size()) - 0.6);
  return lines;
}

void draw_changes(Svg& svg, const std::vector<Attempt>& attempts, const Scale& x) {
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    if (!attempts[i].changed) continue;
    const double place = x(static_cast<double>(i) - 0.5);
    svg.line(place, kTop, place, kTop + kHeight, "ideal");
    svg.text(place, kTop - 6, "the machine changed", "small", Anchor::kMiddle);
  }
}

// Measured against predicted time, before and after calibration; "" without a trial that has both.
std::string scatter_chart(const ReportData& report) {
  const std::vector<Point> points = points_of(report);
  if (points.empty()) return "";
  std::vector<double> values;
  for (const Point& point : points) {
    values.push_back(point.measured.mean);
    if (point.before) values.push_back(*point.before);
    if (point.after) values.push_back(*point.after);
  }
  const Scale x = scale_over(values, kLeft, kLeft + kWidth);
  const Scale y{x.low, x.high, kTop + kHeight, kTop};
  Svg svg = frame("Predicted and measured time", "Measured over predicted iteration time of " +
                                                     std::to_string(points.size()) +
                                                     " plans; on the dashed line a prediction is exact.");
  draw_y_axis(svg, y, "measured ms");
  draw_x_axis(svg, x, ticks(x.low, x.high, 5), "predicted ms");
  svg.line(x(x.low), y(x.low), x(x.high), y(x.high), "ideal");
  draw_scatter_legend(svg);
  for (const Point& point : points) {
    const double place = y(point.measured.mean);
    if (point.before)
      svg.circle(x(*point.before), place, 4.5, "mark-before", tooltip(point, *point.before, " by the costs alone"));
    if (point.after) svg.diamond(x(*point.after), place, 5, "mark-after", tooltip(point, *point.after, ""));
  }
  return svg.str();
}

// Measured time of each trial and of the incumbent; "" without a measured trial.
std::string convergence_chart(const ReportData& report) {
  const std::vector<Attempt> attempts = attempts_of(report);
  std::vector<double> values;
  for (const Attempt& attempt : attempts) {
    if (!attempt.measured) continue;
    values.insert(values.end(), {attempt.measured->mean, attempt.measured->low, attempt.measured->high});
  }
  if (report.trials.empty() || values.empty()) return "";
  const Scale y = scale_over(values, kTop + kHeight, kTop);
  const Scale x{-0.5, static_cast<double>(attempts.size()) - 0.5, kLeft, kLeft + kWidth};
  Svg svg = frame("Time of each trial", "Measured iteration time of the initial plan and of " +
                                            std::to_string(report.trials.size()) +
                                            " trials, with 95 % intervals; the line is the incumbent's.");
  draw_y_axis(svg, y, "measured ms");
  std::vector<double> whole = ticks(0, static_cast<double>(attempts.size()) - 1, 8);
  std::erase_if(whole, [](double value) { return value != std::floor(value); });
  draw_x_axis(svg, x, whole, "trial, in the order of running");
  draw_changes(svg, attempts, x);
  for (const Line& line : staircases(attempts, x, y)) {
    if (!line.empty()) svg.polyline(line, "series");
  }
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    const double place = x(static_cast<double>(i));
    if (attempts[i].failed) svg.text(place, kTop + kHeight - 6, "failed", "small", Anchor::kMiddle);
    if (!attempts[i].measured) continue;
    const Measured& measured = *attempts[i].measured;
    svg.line(place, y(measured.low), place, y(measured.high), "interval");
    svg.circle(place, y(measured.mean), 4.5, attempts[i].incumbent ? "point" : "point-lost",
               attempts[i].name + ": " + measured_text(measured));
  }
  return svg.str();
}

}  // namespace

std::string loss_chart(const api::LossCheck& loss) {
  std::vector<double> losses;
  std::vector<double> steps;
  for (const auto* curve : {&loss.tuned, &loss.untuned}) {
    for (const auto& [step, loss_there] : *curve) {
      if (!loss_there) continue;
      losses.push_back(*loss_there);
      steps.push_back(static_cast<double>(step));
    }
  }
  if (losses.size() < 2) return "";
  const Scale y = scale_over(losses, kTop + kHeight, kTop);
  const auto [first, last] = std::minmax_element(steps.begin(), steps.end());
  const Scale x{*first, std::max(*last, *first + 1), kLeft, kLeft + kWidth};
  Svg svg = frame("Training loss", "Loss of each step of the tuned run and of the untuned one.");
  draw_y_axis(svg, y, "loss");
  draw_x_axis(svg, x, ticks(x.low, x.high, 6), "step");
  const auto draw = [&](const std::vector<api::LossPoint>& curve, const char* css_class) {
    Line line;
    for (const auto& [step, loss_there] : curve) {
      if (loss_there) line.emplace_back(x(static_cast<double>(step)), y(*loss_there));
    }
    svg.polyline(line, css_class);
  };
  draw(loss.tuned, "series");
  draw(loss.untuned, "series-other");
  svg.line(kLeft + 200, 12, kLeft + 218, 12, "series");
  svg.text(kLeft + 223, 16, "tuned", "small");
  svg.line(kLeft + 280, 12, kLeft + 298, 12, "series-other");
  svg.text(kLeft + 303, 16, "untuned", "small");
  return svg.str();
}

std::string charts_section(const ReportData& report) {
  const std::string figures = figure(convergence_chart(report),
                                     "Filled in colour: the plans that became the incumbent. Bars: 95 % intervals.") +
                              figure(scatter_chart(report), "On the dashed line a prediction is exact.");
  return section("Search and prediction", figures.empty() ? "" : "<div class=\"pair\">\n" + figures + "</div>\n");
}

}  // namespace trimtab::cli
