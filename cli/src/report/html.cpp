#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/numbers.hpp"
#include "charts/gantt.hpp"
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

// By name; numbers as JSON has them. An explanation is told elsewhere.
template <typename Part>
std::string facts(const char* heading, const std::optional<Part>& part) {
  if (!part) return "";
  std::map<std::string, std::string> texts;
  Part::fields([&](std::string_view name, auto member, api::Presence presence, std::string_view) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(*part.*member)>>) {
      if (presence == api::Presence::kIfAny && *part.*member == 0) return;
      texts.emplace(name, nlohmann::json(*part.*member).dump());
    }
  });
  std::string rows;
  for (const auto& [name, value] : texts) rows += fact(words(name), value);
  return std::string("<h3>") + heading + "</h3>\n<dl class=\"facts\">\n" + rows + "</dl>\n";
}

std::string_view report_style() {
  return R"css(
* { box-sizing: border-box }
html { color-scheme: light dark }
body { margin:0; background:var(--paper); color:var(--ink); line-height:1.5;
  font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif; font-size:15px }
main, header, footer { max-width:1040px; margin:0 auto; padding:0 28px }
header { padding-top:36px } footer { color:var(--soft); font-size:13px; padding-top:20px; padding-bottom:44px }
.brand { color:var(--accent); font-weight:650; letter-spacing:.02em; margin:0 } .brand span { color:var(--soft); font-weight:400 }
h1 { font-size:40px; line-height:1.15; letter-spacing:-.02em; margin:6px 0 4px; font-weight:650 }
h2 { font-size:19px; margin:0 0 14px; font-weight:620 } h3 { font-size:15px; margin:18px 0 8px; font-weight:600 }
.lead { color:var(--soft); margin:0 0 22px; font-size:16px }
section { padding:30px 0 4px; border-top:1px solid var(--rule); margin-top:26px }
.tiles { display:grid; grid-template-columns:repeat(auto-fit,minmax(190px,1fr)); gap:12px; margin:0 }
.tiles div { background:var(--panel); border-radius:8px; padding:14px 16px }
.tiles dt { color:var(--soft); font-size:13px } .tiles dd { margin:2px 0 0; font-size:20px; font-weight:600; font-variant-numeric:tabular-nums }
.tiles dd small { display:block; color:var(--soft); font-size:13px; font-weight:400 }
.scroll { overflow-x:auto } .pair { display:grid; grid-template-columns:repeat(auto-fit,minmax(400px,1fr)); gap:8px 32px }
table { border-collapse:collapse; width:100%; font-size:14px; font-variant-numeric:tabular-nums }
th { text-align:left; color:var(--soft); font-weight:500; font-size:13px; white-space:nowrap }
th, td { padding:7px 12px 7px 0; border-bottom:1px solid var(--rule); vertical-align:top } .number { text-align:right }
td.number, td.tight { white-space:nowrap } td.plan { font-size:13px; min-width:220px }
td.why { min-width:150px; overflow-wrap:anywhere } td.spread { text-align:right; min-width:118px }
.good { color:var(--good) } .bad { color:var(--bad) } .soft { color:var(--soft) }
tr.won td { font-weight:600 } tr.won td.plan { font-weight:500 }
svg { width:100%; height:auto; display:block } figure { margin:0 0 18px } figure.half { max-width:480px }
pre { background:var(--panel); border-radius:8px; padding:14px 16px; overflow-x:auto; font-size:13px; white-space:pre-wrap } figcaption { color:var(--soft); font-size:13px; margin-top:4px }
code { font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace; font-size:.92em; overflow-wrap:anywhere }
dl.facts { display:grid; grid-template-columns:minmax(150px,max-content) 1fr; gap:4px 22px; margin:0 0 16px; font-size:14px }
dl.facts dt { color:var(--soft) } dl.facts dd { margin:0; overflow-wrap:anywhere }
.keeps { fill:var(--forward) } .recomputes { fill:var(--recompute) }
summary { cursor:pointer; color:var(--soft) } details ul { font-size:14px; color:var(--soft) } details { margin:12px 0 }
.waiting { fill:var(--panel); stroke:var(--rule) }
@media print { section { break-inside:avoid } }
)css";
}

}  // namespace

std::string section(std::string_view title, const std::string& body) {
  if (body.empty()) return "";
  return "<section>\n<h2>" + escape(title) + "</h2>\n" + body + "</section>\n";
}

std::string figure(const std::string& drawing, const std::string& caption) {
  if (drawing.empty()) return "";
  return "<figure>\n" + drawing + "<figcaption>" + caption + "</figcaption>\n</figure>\n";
}

std::string html_table(const std::vector<Column>& columns, const std::string& rows) {
  std::string head;
  for (const Column& column : columns) {
    head += std::string("<th scope=\"col\"") + (column.right ? " class=\"number\">" : ">") + column.title + "</th>";
  }
  return "<div class=\"scroll\"><table>\n<thead><tr>" + head + "</tr></thead>\n<tbody>\n" + rows +
         "</tbody></table></div>\n";
}

std::string cell(std::string_view text, const std::string& css_class) {
  return (css_class.empty() ? "<td>" : "<td class=\"" + css_class + "\">") + escape(text) + "</td>";
}

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
  const std::string explanation = report.told.search ? report.told.search->explanation : "";
  return section("Why this plan", explanation.empty() ? "" : "<pre>" + escape(explanation) + "</pre>\n");
}

std::string provenance_section(const ReportData& report) {
  std::string body = "<dl class=\"facts\">\n";
  body += "<dt>fingerprint</dt><dd><code>" +
          escape(report.told.fingerprint.empty() ? "unknown" : report.told.fingerprint) + "</code></dd>\n";
  if (!report.told.mode.empty()) body += fact("mode", report.told.mode);
  if (!report.told.conclusion.empty()) body += fact("tuning ended", report.told.conclusion);
  body += "</dl>\n";
  body += facts("Profile", report.told.profiled);
  if (report.told.taken_over)
    body += "<p>" + escape("Taken over: " + taken_over_text(*report.told.taken_over)) + ".</p>\n";
  body += facts("Search", report.told.search) + facts("Noise of measured steps", report.told.noise);
  return section("Where these numbers hold", body);
}

std::string report_html(const ReportData& report) {
  std::string page = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  page += "<title>" + escape(report.told.job) + " — Trimtab report</title>\n";
  page += "<style>" + std::string(chart_style()) + std::string(report_style()) + "</style>\n</head>\n<body>\n";
  page += headline_section(report) + "<main>\n";
  page += time_section(report) + timelines_section(report) + trials_section(report) + charts_section(report);
  page += cost_section(report) + changes_section(report) + plans_section(report) + loss_section(report);
  page += explanation_section(report) + provenance_section(report);
  page += "</main>\n<footer>Written by Trimtab " TRIMTAB_VERSION
          ". Times are of one iteration; intervals are 95 %.</footer>\n";
  return page + "</body>\n</html>\n";
}

}  // namespace trimtab::cli
