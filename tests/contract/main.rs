//! Every sentence of the contract and every row of the design's table, over a real socket.
//! Each test is named by the sentence it proves.

mod paging;
