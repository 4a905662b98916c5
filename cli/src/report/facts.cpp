#include <algorithm>
#include <array>
#include <charconv>

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

std::string facts(const std::map<std::string, std::string>& texts) {
  std::string rows;
  for (const auto& [name, value] : texts) rows += fact(words(name), value);
  return rows.empty() ? "" : "<dl class=\"facts\">\n" + rows + "</dl>\n";
}

}  // namespace

std::string loss_text(const LossCheck& loss) {
  if (loss.steps <= 0) return loss.note.empty() ? "not compared with an untuned run" : loss.note;
  std::string text;
  if (loss.same_samples) text = *loss.same_samples ? "the same samples in the same order" : "different samples";
  if (loss.max_difference) {
    text += (text.empty() ? "" : "; ") + std::string("loss within ") + scientific(*loss.max_difference) +
            " of the untuned run";
  }
  text += (text.empty() ? "" : " ") + std::string("over ") + format_number(loss.steps, 0) + " steps";
  return loss.note.empty() ? text : text + "; " + loss.note;
}

std::string loss_section(const ReportData& report) {
  if (!report.loss) return "";
  const bool compared = report.loss->steps > 0 && report.loss->same_samples.has_value();
  const char* css = !compared ? "soft" : *report.loss->same_samples ? "good" : "bad";
  std::string text = loss_text(*report.loss);
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  const std::string chart = loss_chart(*report.loss);
  return section("Loss check", "<p class=\"" + std::string(css) + "\">" + escape(text) + ".</p>\n" +
                                   (chart.empty() ? "" : "<figure class=\"half\">\n" + chart + "</figure>\n"));
}

std::string explanation_section(const ReportData& report) {
  std::string body;
  if (!report.explanation.empty()) body += "<pre>" + escape(report.explanation) + "</pre>\n";
  return section("Why this plan", body);
}

std::string provenance_section(const ReportData& report) {
  std::string body = "<dl class=\"facts\">\n";
  body += "<dt>fingerprint</dt><dd><code>" + escape(report.fingerprint.empty() ? "unknown" : report.fingerprint) +
          "</code></dd>\n";
  if (!report.mode.empty()) body += fact("mode", report.mode);
  if (!report.conclusion.empty()) body += fact("tuning ended", report.conclusion);
  body += "</dl>\n";
  if (!report.profiled.empty()) body += "<h3>Profile</h3>\n" + facts(report.profiled);
  if (!report.search.empty()) body += "<h3>Search</h3>\n" + facts(report.search);
  if (!report.noise.empty()) body += "<h3>Noise of measured steps</h3>\n" + facts(report.noise);
  return section("Where these numbers hold", body);
}

}  // namespace trimtab::cli
