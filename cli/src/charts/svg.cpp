#include "charts/svg.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/numbers.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

std::string attribute(const char* name, double value) {
  return std::string(" ") + name + "=\"" + format_number(value, 2) + "\"";
}

std::string attribute(const char* name, std::string_view value) {
  return value.empty() ? "" : std::string(" ") + name + "=\"" + escape(value) + "\"";
}

std::string attributes(const std::vector<std::pair<const char*, double>>& numbers, std::string_view css_class) {
  std::string text;
  for (const auto& [name, value] : numbers) text += attribute(name, value);
  return text + attribute("class", css_class);
}

std::string closed(const std::string& name, const std::string& attributes, std::string_view tooltip) {
  if (tooltip.empty()) return "<" + name + attributes + "/>\n";
  return "<" + name + attributes + "><title>" + escape(tooltip) + "</title></" + name + ">\n";
}

// Unique within a page as long as titles are, and the same for the same drawing.
std::string identifier(std::string_view title) {
  std::uint64_t hash = 1469598103934665603U;
  for (const char c : title) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return "svg-" + std::to_string(hash);
}

std::string points_of(const std::vector<std::pair<double, double>>& points) {
  return joined(points, " ",
                [](const auto& point) { return format_number(point.first) + "," + format_number(point.second); });
}

}  // namespace

std::string escape(std::string_view text) {
  constexpr std::pair<char, const char*> kNamed[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool allowed = (byte >= 0x20 && byte != 0x7F) || c == '\n' || c == '\t';
    const auto* named = std::ranges::find(kNamed, c, &std::pair<char, const char*>::first);
    result += named != std::end(kNamed) ? named->second : allowed ? std::string(1, c) : "\xEF\xBF\xBD";
  }
  return result;
}

Svg::Svg(double width, double height, std::string title, std::string description)
    : width_(width), height_(height), title_(std::move(title)), description_(std::move(description)) {}

void Svg::rectangle(double x, double y, double width, double height, std::string_view css_class,
                    std::string_view tooltip) {
  body_ += closed("rect", attributes({{"x", x}, {"y", y}, {"width", width}, {"height", height}}, css_class), tooltip);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  body_ += closed("line", attributes({{"x1", x1}, {"y1", y1}, {"x2", x2}, {"y2", y2}}, css_class), "");
}

void Svg::circle(double x, double y, double radius, std::string_view css_class, std::string_view tooltip) {
  body_ += closed("circle", attributes({{"cx", x}, {"cy", y}, {"r", radius}}, css_class), tooltip);
}

void Svg::diamond(double x, double y, double radius, std::string_view css_class, std::string_view tooltip) {
  const std::string points = points_of({{x, y - radius}, {x + radius, y}, {x, y + radius}, {x - radius, y}});
  body_ += closed("polygon", attribute("points", points) + attribute("class", css_class), tooltip);
}

void Svg::text(double x, double y, std::string_view text, std::string_view css_class, Anchor anchor) {
  const char* place = anchor == Anchor::kStart ? "" : anchor == Anchor::kMiddle ? "middle" : "end";
  body_ += "<text" + attributes({{"x", x}, {"y", y}}, css_class) + attribute("text-anchor", std::string_view(place)) +
           ">" + escape(text) + "</text>\n";
}

void Svg::polyline(const std::vector<std::pair<double, double>>& points, std::string_view css_class) {
  body_ += closed("polyline", attribute("points", points_of(points)) + attribute("class", css_class), "");
}

std::string Svg::str(std::string_view style) const {
  const std::string id = identifier(title_);
  const bool standalone = !style.empty();
  std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\"";
  text += attribute("viewBox", "0 0 " + format_number(width_) + " " + format_number(height_));
  if (standalone) text += attribute("width", width_) + attribute("height", height_);
  text += " role=\"img\" aria-labelledby=\"" + id + "-title " + id + "-description\">\n";
  text += "<title id=\"" + id + "-title\">" + escape(title_) + "</title>\n";
  text += "<desc id=\"" + id + "-description\">" + escape(description_) + "</desc>\n";
  if (standalone) text += "<style>" + std::string(style) + "</style>\n";
  return text + body_ + "</svg>\n";
}

std::vector<double> ticks(double low, double high, int count) {
  if (!(high > low) || count < 1) return {low};
  const double raw = (high - low) / count;
  const double magnitude = std::pow(10.0, std::floor(std::log10(raw)));
  const double ratio = raw / magnitude;
  const double step = magnitude * (ratio <= 1.0 ? 1 : ratio <= 2.0 ? 2 : ratio <= 5.0 ? 5 : 10);
  std::vector<double> values;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) values.push_back(k * step);
  return values.empty() ? std::vector<double>{low} : values;
}

std::string tick_label(double value, double step) {
  const int decimals = step >= 1 || step <= 0 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
  return format_fixed(value, decimals);
}

}  // namespace trimtab::cli
