#pragma once

// What a strategy is given, and what it answers. A strategy prices candidates through its SearchRun, which
// keeps the best plans, counts evaluations and says when to end.

#include <set>

#include "pricing/evaluator.hpp"
#include "tuner/search.hpp"

namespace trimtab::tuner {

// The best plans of a search so far, without repeats and without excluded ones. Plain state; one per search.
class Shortlist {
 public:
  // `distinct`: of plans that differ in recompute alone, by less than this share of time, only the fastest is kept.
  // `of_a_shape`: so many of one shape are kept; 0 = all.
  Shortlist(std::size_t capacity, const std::vector<std::string>& excluded, double distinct = 0,
            std::size_t of_a_shape = 0)
      : capacity_(capacity == 0 ? 1 : capacity),
        excluded_(excluded.begin(), excluded.end()),
        distinct_(distinct),
        of_a_shape_(of_a_shape) {}
  explicit Shortlist(const SearchOptions& options)
      : Shortlist(options.plans, options.excluded, options.distinct, options.of_a_shape) {}

  // Whether a plan of this score would be taken.
  [[nodiscard]] bool wants(const Score& score) const {
    return score.fits() && (entries_.size() < capacity_ || score.ms < entries_.back().ms);
  }
  // False when the plan is excluded; a repeat and a near copy of a faster one are ignored.
  bool add(const Score& score, Plan plan);
  // Adds all plans of another one.
  void merge(const Shortlist& other);

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] double best_ms() const;  // infinite when empty
  [[nodiscard]] bool excludes_any() const { return !excluded_.empty(); }
  [[nodiscard]] std::vector<Plan> plans() const;  // best first

 private:
  struct Entry {
    double ms = 0;
    std::string hash;
    Plan plan;
    Plan layout;  // only where near copies matter
    Plan shape;   // only where its plans are counted
  };
  [[nodiscard]] bool near(const Entry& faster, const Entry& slower) const;
  // Whether another plan of its shape may be kept: the slowest of too many gives way to a faster one.
  [[nodiscard]] bool has_place(const Entry& added);

  std::size_t capacity_;
  std::set<std::string> excluded_;
  double distinct_;
  std::size_t of_a_shape_;
  std::vector<Entry> entries_;  // ascending in ms; equal times in order of arrival
};

struct Scored {
  Candidate candidate;
  Score score;
};

class SearchRun {
 public:
  // All must outlive this.
  SearchRun(Evaluator& evaluator, const SearchOptions& options)
      : evaluator_(evaluator), options_(options), first_evaluation_(evaluator.evaluations()), shortlist_(options) {}

  // Prices the candidate and keeps it if it is among the best. An excluded plan counts as one that does not fit, by a
  // byte. Once stopped() this prices nothing more and answers with the worst score.
  Score consider(const Candidate& candidate);
  // The same for a step that the strategy has priced itself; `make_plan` is called only for one worth keeping.
  template <typename MakePlan>
  bool consider_plan(const Score& score, MakePlan&& make_plan) {
    return !shortlist_.wants(score) || shortlist_.add(score, make_plan());
  }

  [[nodiscard]] bool stopped();
  // Whether the caller has asked for an end.
  [[nodiscard]] bool cancelled() const { return options_.stop && options_.stop(); }
  // That, or the evaluations are gone: asked inside of what may take many of them.
  [[nodiscard]] bool over() const { return evaluations_gone() || cancelled(); }
  // Whether there is a budget whose shares are known: of evaluations, or of time that the caller tells.
  [[nodiscard]] bool has_shares() const { return options_.max_evaluations > 0 || options_.spent; }
  // The share of it that is gone; 0 where there is none.
  [[nodiscard]] double spent() const;
  // stopped() once this share is gone, until the limit changes: a part of a search is over.
  void limit(double share) { limit_ = share; }
  // Keeps what a part of the search has found that was a run of its own: its plans, and what was refused or too large.
  void take_over(const SearchRun& part);
  [[nodiscard]] std::string stop_reason() const { return stop_reason_; }  // "budget", "cancelled" or empty
  void step(SearchStep step) { trace_.push_back(std::move(step)); }

  [[nodiscard]] Evaluator& evaluator() const { return evaluator_; }
  [[nodiscard]] const PlanSpace& space() const { return evaluator_.space(); }
  [[nodiscard]] const Model& model() const { return evaluator_.model(); }
  [[nodiscard]] const SearchOptions& options() const { return options_; }
  [[nodiscard]] Shortlist& shortlist() { return shortlist_; }
  [[nodiscard]] std::vector<SearchStep>& trace() { return trace_; }
  // Candidates whose plan is excluded, in order of arrival.
  [[nodiscard]] const std::vector<Candidate>& refused() const { return refused_; }
  // The candidate that is least over its memory, for the message when nothing fits.
  [[nodiscard]] const std::optional<Candidate>& closest() const { return closest_; }

 private:
  [[nodiscard]] bool evaluations_gone() const {
    return options_.max_evaluations > 0 && evaluator_.evaluations() - first_evaluation_ >= options_.max_evaluations;
  }

  Evaluator& evaluator_;
  const SearchOptions& options_;
  std::uint64_t first_evaluation_;  // of this run, where the evaluator has counted others before
  Shortlist shortlist_;
  std::vector<SearchStep> trace_;
  std::string stop_reason_;
  double limit_ = 1;
  std::vector<Candidate> refused_;
  std::optional<Candidate> closest_;
  Score closest_score_;
};

// How a strategy ended by itself.
struct StrategyEnd {
  std::string stopped;        // "converged", "exhausted" or "too_large"
  bool proven = false;        // no plan of the space is faster
  double lower_bound_ms = 0;  // no plan of the space takes less; 0 = the strategy does not say
  std::string refusal = {};   // why it cannot search here, and what can; empty where it did
};

using StrategyFunction = StrategyEnd (*)(SearchRun& run, const std::optional<Candidate>& start);

struct Strategy {
  std::string_view name;
  StrategyFunction run;
};

// The search that a cost model's own authors have for it. It may set knobs that a Candidate cannot.
class OwnSearch {
 public:
  virtual ~OwnSearch() = default;
  // The strategy in whose place it stands: "galvatron" under galvatron:v2.
  [[nodiscard]] virtual std::string_view strategy() const = 0;
  // Of a run over the evaluator that offers it.
  virtual StrategyEnd search(SearchRun& run, const std::optional<Candidate>& start) = 0;
};

// The strategy, or the model's own search in its place.
[[nodiscard]] StrategyEnd run_strategy(const Strategy& strategy, SearchRun& run, const std::optional<Candidate>& start);

// Words that the messages of searches share. Pure.

// "a; b; ...", the first eight of them.
[[nodiscard]] std::string first_names(const std::set<std::string>& names);
// "1.25 %"
[[nodiscard]] std::string percent_text(double share);

}  // namespace trimtab::tuner
