#include "terminal_text.hpp"

#include <catch2/catch.hpp>
#include <sstream>

#include "terminal_filter.hpp"

using namespace trimtab::cli;

TEST_CASE("columns are as wide as their widest cell and numbers stand to the right") {
  TextTable table({"name", ">n"});
  table.add({"a", "1"});
  table.add({"longer", "100"});
  CHECK(table.str() == "name      n\na         1\nlonger  100\n");
}

TEST_CASE("letters beyond ASCII take one column") {
  TextTable table({"x", "y"});
  table.add({"± 1", "b"});
  CHECK(table.str(1) == " x    y\n ± 1  b\n");
  CHECK(display_width("±1") == 2);
}

TEST_CASE("no control character and no mark of writing direction is printable") {
  CHECK(printable("a\x1b[31m\x07\n\t\x7f"
                  "b") == "a [31m    b");
  CHECK(printable("\xC2\x9B"
                  "31m \x9B"
                  "2J") == " 31m  2J");  // C1, as UTF-8 and as a byte
  CHECK(printable("a\xE2\x80\xAE"
                  "b\xE2\x80\x8F"
                  "c\xE2\x81\xA6"
                  "d") == "a b c d");  // bidirectional
  const std::string kept = "\xC2\xA0 \xC3\x9B \xE2\x80\xA6 \xE2\x81\xAA \xE2\x94\x80 \xF0\x9F\x9A\x80";
  CHECK(printable(kept) == kept);
}

TEST_CASE("a name with a newline makes no further line of a table") {
  TextTable table({"name", ">n"});
  table.add({"a\nfake  100", "1"});
  table.add_line("b\nfake");
  CHECK(table.str() == "name         n\na fake  100  1\nb fake\n");
}

TEST_CASE("what data brings reaches a terminal without control characters, the program's own sequences as they are") {
  std::ostringstream terminal;
  {
    const TerminalFilter filter(terminal);
    control_terminal(terminal, "\x1b[H");
    terminal << "a\x1b]0;pwn\x07\n\t" << 'b' << "\r\xE2\x80" << std::flush << "\xAE"
             << "c\xE2\x94";
    terminal << '\x80' << "\xC2";
    control_terminal(terminal, "\x1b[2J");
    CHECK(terminal.good());
  }
  const std::string shown = "\xEF\xBF\xBD";
  CHECK(terminal.str() == "\x1b[Ha" + shown + "]0;pwn" + shown + "\n\tb" + shown + shown + "c\xE2\x94\x80\xC2\x1b[2J");
  terminal << "\x1b";
  CHECK(terminal.str().back() == '\x1b');  // the filter is gone
}
