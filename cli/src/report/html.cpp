#include "report/html.hpp"

#include "charts/gantt.hpp"
#include "charts/svg.hpp"
#include "report/sections.hpp"

namespace trimtab::cli {

std::string section(std::string_view title, const std::string& body) {
  if (body.empty()) return "";
  return "<section>\n<h2>" + escape(title) + "</h2>\n" + body + "</section>\n";
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
