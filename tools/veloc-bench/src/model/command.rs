//! The command `veloc-bench model`.

use std::path::PathBuf;

use anyhow::{ensure, Result};
use clap::Args;
use serde::Serialize;

use super::node::NodeName;
use super::predict::{predict, PlanPrediction, TITLE};
use super::{paper, report};
use crate::options::{self, Amounts};
use crate::output;
use crate::results::{prepare, write_json, MeasuredDevice};

/// Without `--node`, the model beside the numbers of HiPC'22; with it, predictions for that node of
/// what `veloc-bench run` would measure with the same options.
#[derive(Debug, Args)]
pub(crate) struct ModelCommand {
    /// Predict for this node
    #[arg(long)]
    node: Option<NodeName>,
    #[command(flatten)]
    points: options::RunOptions,
    /// Show the figures that the node is made of, and where they come from
    #[arg(long, requires = "node")]
    figures: bool,
    /// Write everything to this file, too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The content of the file.
#[derive(Serialize)]
struct PaperComparison {
    title: &'static str,
    rows: Vec<paper::PaperRow>,
}

#[derive(Serialize)]
struct Predicted {
    title: &'static str,
    node: super::node::NodeFigures,
    predictions: Vec<PlanPrediction>,
}

pub(crate) fn run(options: &ModelCommand) -> Result<()> {
    options.out.as_deref().map_or(Ok(()), prepare)?;
    let Some(name) = options.node else {
        ensure!(
            options.points == options::RunOptions::new(Amounts::default()),
            "predictions want --node; without it the model stands beside HiPC'22, with the settings of that"
        );
        let clock = output::clock("the model computes what HiPC'22 has measured");
        let rows = paper::rows()?;
        drop(clock);
        print!("{}", report::comparison(&rows));
        return write(options, &PaperComparison { title: report::COMPARISON, rows });
    };
    options::check_effect(&options.points)?;
    let node = name.node();
    if options.figures {
        print!("{}", report::figures(&node));
    }
    let plans = options.points.plans(&MeasuredDevice::default())?;
    let predictions =
        plans.into_iter().map(|plan| predict(plan, &node)).collect::<Result<Vec<_>>>()?;
    print!("{}", report::predictions(&predictions));
    write(options, &Predicted { title: TITLE, node, predictions })
}

fn write(options: &ModelCommand, what: &impl Serialize) -> Result<()> {
    options.out.as_deref().map_or(Ok(()), |path| write_json(path, what))
}
