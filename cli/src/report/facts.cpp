#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/numbers.hpp"
#include "charts/svg.hpp"
#include "report/sections.hpp"

namespace trimtab::cli {

namespace {

std::string fact(const std::string& name, const std::string& value) {
  return "<dt>" + escape(name) + "</dt><dd>" + escape(value) + "</dd>\n";
}

std::string words(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string scientific(double value) {
  std::array<char, 64> text{};
  const auto [end, failure] =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 3);
  return {text.data(), failure == std::errc{} ? end : text.data()};
}

// As JSON has a number, and as an explanation is told elsewhere.
template <typename Part>
std::map<std::string, std::string> texts_of(const Part& part) {
  std::map<std::string, std::string> texts;
  Part::fields([&](std::string_view name, auto member, api::Presence, std::string_view) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(part.*member)>>) {
      texts.emplace(name, nlohmann::json(part.*member).dump());
    }
  });
  return texts;
}

template <typename Part>
std::string facts(const char* heading, const std::optional<Part>& part) {
  if (!part) return "";
  std::string rows;
  for (const auto& [name, value] : texts_of(*part)) rows += fact(words(name), value);
  return std::string("<h3>") + heading + "</h3>\n<dl class=\"facts\">\n" + rows + "</dl>\n";
}

}  // namespace

std::string loss_text(const api::LossCheck& loss) {
  if (loss.steps <= 0) return loss.note.empty() ? "not compared with an untuned run" : loss.note;
  std::string text;
  if (loss.same_samples) text = *loss.same_samples ? "the same samples in the same order" : "different samples";
  if (const auto difference = loss.max_abs_difference_to_untuned_run) {
    text += (text.empty() ? "" : "; ") + std::string("loss within ") + scientific(*difference) + " of the untuned run";
  }
  text +=
      (text.empty() ? "" : " ") + std::string("over ") + format_number(static_cast<double>(loss.steps), 0) + " steps";
  return loss.note.empty() ? text : text + "; " + loss.note;
}

std::string loss_section(const ReportData& report) {
  if (!report.told.loss) return "";
  const api::LossCheck& loss = *report.told.loss;
  const bool compared = loss.steps > 0 && loss.same_samples.has_value();
  const char* css = !compared ? "soft" : *loss.same_samples ? "good" : "bad";
  std::string text = loss_text(loss);
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  const std::string chart = loss_chart(loss);
  return section("Loss check", "<p class=\"" + std::string(css) + "\">" + escape(text) + ".</p>\n" +
                                   (chart.empty() ? "" : "<figure class=\"half\">\n" + chart + "</figure>\n"));
}

std::string explanation_section(const ReportData& report) {
  std::string body;
  const std::string explanation = report.told.search ? report.told.search->explanation : "";
  if (!explanation.empty()) body += "<pre>" + escape(explanation) + "</pre>\n";
  return section("Why this plan", body);
}

std::string provenance_section(const ReportData& report) {
  std::string body = "<dl class=\"facts\">\n";
  body += "<dt>fingerprint</dt><dd><code>" +
          escape(report.told.fingerprint.empty() ? "unknown" : report.told.fingerprint) + "</code></dd>\n";
  if (!report.told.mode.empty()) body += fact("mode", report.told.mode);
  if (!report.told.conclusion.empty()) body += fact("tuning ended", report.told.conclusion);
  body += "</dl>\n";
  body += facts("Profile", report.told.profiled) + facts("Search", report.told.search) +
          facts("Noise of measured steps", report.told.noise);
  return section("Where these numbers hold", body);
}

}  // namespace trimtab::cli
