#pragma once

// Just enough SVG for charts: shapes with CSS classes, so that a page's style (light or dark) colours them. Pure.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trimtab::cli {

// For text and attribute values of HTML and XML alike; control characters, which XML forbids, become U+FFFD.
[[nodiscard]] std::string escape(std::string_view text);

enum class Anchor { kStart, kMiddle, kEnd };

class Svg {
 public:
  // `title` and `description` are what a screen reader says of the drawing.
  Svg(double width, double height, std::string title, std::string description);

  void rectangle(double x, double y, double width, double height, std::string_view css_class,
                 std::string_view tooltip = "");
  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  void circle(double x, double y, double radius, std::string_view css_class, std::string_view tooltip = "");
  void diamond(double x, double y, double radius, std::string_view css_class, std::string_view tooltip = "");
  void text(double x, double y, std::string_view text, std::string_view css_class, Anchor anchor = Anchor::kStart);
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view css_class);

  // An <svg> element. With a style it is a file of its own; without, a part of a page.
  [[nodiscard]] std::string str(std::string_view style = "") const;

 private:
  double width_;
  double height_;
  std::string title_;
  std::string description_;
  std::string body_;
};

// Round numbers that divide [low, high] into about `count` parts; they lie inside it.
[[nodiscard]] std::vector<double> ticks(double low, double high, int count);
// Enough decimals for the distance of neighbouring ticks.
[[nodiscard]] std::string tick_label(double value, double step);

}  // namespace trimtab::cli
