#pragma once

// Between a stream and a terminal: control characters and marks of writing direction that data brings do not reach it,
// whoever prints them. What the program itself says to a terminal goes through control_terminal().

#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace trimtab::cli {

// Stands in for the stream's buffer while it lives. The stream must outlive it.
class TerminalFilter : public std::streambuf {
 public:
  explicit TerminalFilter(std::ostream& stream);
  ~TerminalFilter() override;
  TerminalFilter(const TerminalFilter&) = delete;
  TerminalFilter& operator=(const TerminalFilter&) = delete;
  // As it is, behind what was written before.
  bool write_through(std::string_view text);

 protected:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;

 private:
  std::ostream& stream_;
  std::streambuf* terminal_;
  std::string begun_;  // the first bytes of a character whose others have not come yet
};

// A control sequence of the program's own, to a stream with such a filter or without one.
void control_terminal(std::ostream& stream, std::string_view sequence);

}  // namespace trimtab::cli
